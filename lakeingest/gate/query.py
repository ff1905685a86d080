"""Problems with a suite's own SQL, as sentences with their cure. A suite is data: its SQL reads the batch alone.

Great Expectations puts the batch's view in the place of {batch} and hands the text to Spark. So what is let through is
one query, over {batch} and what is made of it, with functions that look at nothing but their arguments. What a query
may consist of is listed, not what it may not: what nobody has thought of is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from string import Formatter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokenizer_core import Token

_BATCH = "__batch"
"""Stands for {batch} in what is looked at. It is as long, so that columns are told as they are in the suite."""
_LONGEST = 20_000
_PURE = """
    abs acos any any_value array array_agg array_compact array_contains array_distinct array_except array_intersect
    array_join array_max array_min array_position array_remove array_size array_sort array_union arrays_overlap ascii
    asin atan atan2 avg base64 bigint bit_count bit_length bool_and bool_or boolean bround btrim cardinality cast cbrt
    ceil ceiling char_length character_length chr coalesce collect_list collect_set concat concat_ws contains corr cos
    count count_if covar_pop covar_samp crc32 cume_dist date date_add date_diff date_format date_from_unix_date
    date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear decimal
    dense_rank double element_at elt endswith equal_null every exists exp extract filter find_in_set first first_value
    flatten float floor forall from_unixtime from_utc_timestamp get get_json_object greatest hash hex hour if ifnull
    initcap instr int is_valid_utf8 isnan isnotnull isnull json_array_length json_object_keys kurtosis lag last
    last_day last_value lcase lead least left len length levenshtein like ln locate log log10 log1p log2 lower ltrim
    luhn_check make_date map map_concat map_contains_key map_entries map_filter map_from_arrays map_keys map_values max
    max_by md5 mean median min min_by minute mod month monthname months_between named_struct nanvl next_day nth_value
    ntile nullif nullifzero nvl nvl2 octet_length percent_rank percentile percentile_approx pmod position pow power
    quarter radians rank regexp regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace
    regexp_substr regr_count regr_slope replace reverse right rint rlike round row_number rtrim second sha sha1 sha2
    sign signum sin size skewness slice smallint some sort_array split split_part sqrt startswith std stddev
    stddev_pop stddev_samp string struct substr substring substring_index sum tan timestamp timestamp_micros
    timestamp_millis timestamp_seconds tinyint to_date to_number to_timestamp to_timestamp_ntz to_unix_timestamp
    to_utc_timestamp transform_keys transform_values translate trim trunc try_add try_cast try_divide try_element_at
    try_multiply try_subtract try_sum try_to_date try_to_number try_to_timestamp typeof ucase unbase64 unhex unix_date
    unix_micros unix_millis unix_seconds upper url_decode url_encode var_pop var_samp variance weekday weekofyear
    width_bucket xxhash64 year zeroifnull zip_with
"""
_FUNCTIONS = frozenset(_PURE.split())
"""Those of Spark whose value follows from their arguments, and is no larger than these by much."""
_SYNTAX = """
    all and as between by case char decimal dec distinct else except exclude filter from group having in inner intersect
    join like ilike limit not numeric on or order over qualify rlike select set some then union using varchar when where
"""
_BEFORE_BRACKETS = frozenset(_SYNTAX.split())
"""Words of SQL that may stand before a bracket and call nothing."""
_ALONE = """
    current_catalog current_database current_date current_schema current_time current_timestamp current_user
    localtime localtimestamp session_user user
"""
_WITHOUT_BRACKETS = frozenset(_ALONE.split())
"""Words that Spark takes for a function without a bracket, unless a column has that name."""
_RELATIONS = frozenset(("table", "stream"))
"""Words that begin a relation for Spark, and are a name like any other for sqlglot."""
_NOT_TAKEN = frozenset((";", "|>", "?", ":", "@"))
_NODES = """
    Select Subquery Union Intersect Except With CTE From Join Table TableAlias Where Group Having Order Ordered Limit
    Offset Distinct Column Identifier Star Alias Aliases Literal RawString HexString Boolean Null Paren Tuple DataType
    DataTypeParam Interval IntervalSpan Between In Window WindowSpec Filter Lambda Bracket Dot Var ColumnDef When Neg
    Not Any All Exists
"""


def problems(query: object, columns: Collection[str]) -> Iterator[str]:
    """Problems with a query over {batch}.

    Args:
        columns: the names of the batch's columns, as far as they are known.
    """
    if not isinstance(query, str):
        yield "not a query; write it in quotes, as in 'SELECT * FROM {batch} WHERE n > 200'"
        return
    try:
        text = _filled(query)
        texts = [*_words(text, columns)] or [*_parts(text)]
    except _UnreadableQuery as error:
        texts = [f"{error}"]
    yield from dict.fromkeys(texts)


class _UnreadableQuery(ValueError):
    """The text is no query that can be looked at."""


def _filled(query: str) -> str:
    """The query over a table of a name that nothing else has.

    Raises:
        _Unreadable: it has another field than {batch}, or fills in what Spark's settings and environment hold.
    """
    if len(query) > _LONGEST:
        raise _UnreadableQuery(f"a query of {len(query):,} characters; write one of at most {_LONGEST:,}")
    try:
        fields = [field for field in Formatter().parse(query) if field[1] is not None]
    except ValueError as error:
        raise _UnreadableQuery(f"{error}; write {{batch}} for the batch, and a brace of your own twice") from None
    for _, name, form, conversion in fields:
        if name != "batch" or form or conversion:
            raise _UnreadableQuery(f"{{{name}}} is not filled in; write {{batch}} alone, and a brace of your own twice")
    if not fields or _BATCH in query.lower():
        raise _UnreadableQuery("does not ask the batch; write {batch} as its table")
    text = query.format(batch=_BATCH)
    if "${" in text:
        raise _UnreadableQuery("${ fills in what Spark's settings or the environment hold; write the value itself")
    return text.rstrip("; \t\r\n\v\f")


def _words(text: str, columns: Collection[str]) -> Iterator[str]:
    """Functions that its words call: Spark and sqlglot may group words differently."""
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import TokenError

    try:
        tokens = Spark().tokenize(text)
    except TokenError:
        raise _UnreadableQuery("cannot be read: a quote is opened and never closed; close it") from None
    if not tokens or tokens[0].text.upper() not in ("SELECT", "WITH", "("):
        yield "not a query; begin with SELECT, or with WITH"
    if any(token.comments for token in tokens):
        yield "holds a comment, or a hint; write it into the expectation's meta"
    names = {name.lower() for name in columns}
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        yield from _word(text, before, token, after, names)


def _word(
    text: str, before: Token | None, token: Token, after: Token | None, columns: Collection[str]
) -> Iterator[str]:
    written = text[token.start : token.end + 1]
    word, quoted, calls = token.text.lower(), written[0] in "`\"'", after is not None and after.text == "("
    qualified = before is not None and before.text == "."
    if written in _NOT_TAKEN:
        yield f"{written!r} is not for a suite; write one query, with its values in it"
    elif (written[0] in "\"'" and not calls) or not (quoted or word.replace("_", "a").isalnum()):
        return
    elif calls and (quoted or qualified or word not in _BEFORE_BRACKETS):
        if qualified or word not in _FUNCTIONS:
            yield (
                f"{token.text}(…) is not for a suite, which asks about its batch alone; use functions whose value "
                "follows from their arguments"
            )
    elif word in _WITHOUT_BRACKETS and not qualified and word not in columns:
        yield f"{token.text} is not of the batch; write a value in its place, or alias.{token.text} for a column"
    elif word in _RELATIONS and not quoted:
        yield f"{token.text} is a word of SQL; write the name of a column as `{token.text}`"


def _parts(text: str) -> Iterator[str]:
    """Its parts, and the tables that it reads."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError

    try:
        query = sqlglot.parse_one(text, dialect="spark")
    except ParseError as error:
        first = error.errors[0]
        raise _UnreadableQuery(
            f"not understood in column {first['col']}, or just before it; correct the query"
        ) from None
    except Exception:
        # Its readers of functions take any arguments, and stumble over what they do not expect.
        raise _UnreadableQuery(
            "cannot be read: nested too deep, or a bracket or an argument is missing; write it simpler"
        ) from None
    if not isinstance(query, exp.Query):
        raise _UnreadableQuery("not a query; begin with SELECT, or with WITH")
    allowed = (exp.Binary, exp.Func, *(getattr(exp, name) for name in _NODES.split() if hasattr(exp, name)))
    for node in query.walk():
        if not isinstance(node, allowed):
            part_text = _sql(node)
            yield f"{part_text} is not for a suite; ask with SELECT over {{batch}} alone"
    yield from _tables(query)


def _tables(query: exp.Query) -> Iterator[str]:
    """Tables that it reads besides the batch, and names that a WITH before it has made of the batch."""
    from sqlglot import exp

    first = query.args.get("with_") or query.args.get("with")
    if any(each is not first for each in query.find_all(exp.With)):
        yield "has a WITH within; write it at the beginning"
        return
    names = [_BATCH]
    for each in first.expressions if first is not None else ():
        yield from _strange(each.this, names)
        names.append(each.alias.lower())
    within = {id(table) for table in first.find_all(exp.Table)} if first is not None else set()
    yield from _strange(query, names, within)


def _strange(query: Any, names: Sequence[str], but: Collection[int] = ()) -> Iterator[str]:
    from sqlglot import exp

    for table in query.find_all(exp.Table):
        plain = {name for name, value in table.args.items() if value} <= {"this", "alias"}
        if id(table) not in but and not (plain and table.name.lower() in names):
            yield f"reads {_sql(table)}, and a suite has its batch alone; write {{batch}}"


def _sql(node: Any) -> str:
    return str(node.sql(dialect="spark")).replace(_BATCH, "{batch}")[:80]
