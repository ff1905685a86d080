"""Records that would run a reader out of time, memory or stack, if it let them."""

from __future__ import annotations

BOMBS = {
    "deep arrays": b'{"n": 1, "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"n": 1, "s": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
    "half deep": b'{"n": 1, "a": ' + b"[" * 900 + b"]" * 900 + b"}",
    "open": b"[" * 1_000_000,
    "digits": b'{"n": ' + b"9" * 1_000_000 + b"}",
    "real digits": b'{"n": 1, "x": ' + b"9" * 1_000_000 + b".5}",
    "decimal digits": b'{"n": 1, "d": 0.' + b"9" * 1_000_000 + b"}",
    "exponent": b'{"n": 1, "x": 1e400}',
    "vast exponent": b'{"n": 1, "d": 1e999999999}',
    "absurd exponent": b'{"n": 1e99999999999999999999}',
    "minus absurd exponent": b'{"n": 1e-99999999999999999999}',
    "NaN": b'{"n": NaN}',
    "minus infinity": b'{"n": 1, "x": -Infinity}',
    "twice": b'{"n": "x", "n": 1}',
    "long text": b'{"n": "' + b"x" * 5_000_000 + b'"}',
    "long time": b'{"n": 1, "t": "' + b"1" * 1_000_000 + b'"}',
    "no base64": b'{"n": 1, "b": "' + b" AAAA" * 200_000 + b'!"}',
    "half a character": b'{"n": "\\ud800"}',
    "half a name": b'{"\\ud800": 1}',
    "long key": b'{"n": 1, "m": {"' + b"k" * 1_000_000 + b'": "x"}}',
    "many keys": b"{" + b",".join(b'"k%d":1' % i for i in range(100_000)) + b"}",
    "NUL": b"\0" * 1000,
    "empty": b"",
    "UTF-16": '{"n": 1}'.encode("utf-16"),
}
