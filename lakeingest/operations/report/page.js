"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const pipelines = read("points");
  const specifications = read("charts");
  const made = Date.parse(document.body.dataset.made);
  const choice = (id) => document.getElementById(id)?.value ?? "";
  const STEPS = [60, 300, 900, 3600, 21600, 86400, 604800, 2592000, 31536000].map((s) => s * 1000);
  const NAMES = ["minute", "5 minutes", "15 minutes", "hour", "6 hours", "day", "week", "30 days", "year"];
  const BARS = 60;
  const COLOURS = 6;

  const since = () => (choice("period") ? made - 1000 * Number(choice("period")) : -Infinity);
  const text = (at) => new Date(at).toISOString().replace("T", " ").slice(0, 19);
  const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

  /** Points into periods of equal length, few enough to be seen; what they have in common is one bar. */
  function inPeriods(points, key, add) {
    const times = points.map((p) => p.at);
    const span = Math.max(...times) - Math.min(...times);
    if (!points.length) return { bars: [], per: "" };
    let step = STEPS.findIndex((s) => span / s <= BARS);
    if (step < 0) step = STEPS.length - 1;
    const bars = new Map();
    for (const point of points) {
      const start = Math.floor(point.at / STEPS[step]) * STEPS[step];
      const name = `${start} ${key(point)}`;
      const bar = bars.get(name) ?? { start, end: start + STEPS[step], period: text(start) };
      add(bar, point);
      bars.set(name, bar);
    }
    return { bars: [...bars.values()].sort((a, b) => a.start - b.start), per: `per ${NAMES[step]}` };
  }

  /** Bars of one period stand on each other, in the order of `names`. */
  function stacked(found, name, names) {
    const tops = new Map();
    for (const bar of found.bars.sort((a, b) => names.indexOf(a[name]) - names.indexOf(b[name]))) {
      bar.from = tops.get(bar.start) ?? 0;
      bar.to = bar.from + bar.count;
      tops.set(bar.start, bar.to);
    }
    return found;
  }

  const age = (s) => (s < 60 ? `${Math.round(s)} s` : s < 3600 ? `${Math.round(s / 60)} min` :
    s < 86400 ? `${(s / 3600).toFixed(1)} h` : `${(s / 86400).toFixed(1)} days`);

  const PREPARE = {
    records(points) {
      const kinds = { "in the table": "rows", refused: "refused", dropped: "dropped" };
      const each = points.flatMap((p) => Object.entries(kinds).map(([what, of]) => ({ at: p.at, what, count: p[of] ?? 0 })));
      const found = inPeriods(each.filter((p) => p.count), (p) => p.what, (bar, p) => {
        Object.assign(bar, { what: p.what, count: (bar.count ?? 0) + p.count });
      });
      return stacked(found, "what", Object.keys(kinds));
    },
    age(points) {
      const known = points.filter((p) => p.oldest_s !== null);
      return inPeriods(known, () => "", (bar, p) => {
        bar.newest = Math.min(bar.newest ?? Infinity, Math.max(0, p.newest_s));
        bar.oldest = Math.max(bar.oldest ?? 1, p.oldest_s);
        bar.age = `${age(bar.newest)} to ${age(bar.oldest)}`;
      });
    },
    refused(points) {
      const chosen = choice("reason");
      const shown = points.filter((p) => !chosen || p.reason === chosen);
      const totals = new Map();
      for (const p of shown) totals.set(p.reason, (totals.get(p.reason) ?? 0) + p.count);
      const most = [...totals].sort((a, b) => b[1] - a[1]).slice(0, COLOURS).map(([reason]) => reason);
      const named = (p) => (most.includes(p.reason) ? p.reason : "others");
      const found = inPeriods(shown, named, (bar, p) => {
        Object.assign(bar, { reason: named(p), count: (bar.count ?? 0) + p.count });
      });
      return stacked(found, "reason", [...most, "others"]);
    },
    gate: (points) => ({
      bars: points.map((p) => ({ ...p, time: p.at, name: p.expectation.replace(/^expect_(column_)?(values_to_)?/, "") })),
      rows: new Set(points.map((p) => p.expectation)).size,
    }),
    sizes: (points) => ({ bars: points }),
    partitions: (points) => ({ bars: points, rows: points.length }),
  };

  const views = new Map();
  /** Draw a chart anew, with the points that are chosen. */
  async function draw(figure) {
    const { chart, pipeline } = figure.dataset;
    const all = pipelines[Number(pipeline)][chart];
    const points = all.filter((p) => p.at === undefined || p.at >= since());
    const found = points.length ? PREPARE[chart](points) : { bars: [] };
    const empty = !found.bars.length;
    const place = figure.querySelector(".chart");
    place.hidden = empty;
    figure.querySelector(".nothing").hidden = !empty;
    const per = figure.querySelector(".per");
    if (per) per.textContent = empty ? "" : found.per;
    figure.dataset.drawn = String(found.bars.length);
    if (empty) return;
    // A chart with a row for each of its values has the height of one in its specification.
    const height = specifications[chart].height * (found.rows ?? 1);
    if (!views.has(figure)) {
      const chosen = { ...specifications[chart], data: { name: "points", values: found.bars }, height };
      const options = { mode: "vega-lite", renderer: "svg", actions: false };
      views.set(figure, window.vegaEmbed(place, chosen, options));
      await views.get(figure);
      // The figure's own words tell what is drawn, and the tables have its numbers.
      place.querySelector("svg").setAttribute("aria-hidden", "true");
      return;
    }
    const { view } = await views.get(figure);
    view.data("points", found.bars).height(height).signal("width", place.clientWidth || 300).resize();
    await view.runAsync();
  }

  const figures = [...document.querySelectorAll("figure[data-chart]")];
  const wanted = new Set();
  function want(figure) {
    if (wanted.has(figure)) return undefined;
    wanted.add(figure);
    return draw(figure);
  }
  // What is seen comes first; the rest follows, for whoever prints.
  const watch = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) if (isIntersecting) want(target);
  });
  figures.forEach((figure) => watch.observe(figure));
  (async () => {
    for (const figure of figures) {
      await new Promise((resolve) => setTimeout(resolve));
      await want(figure);
    }
    document.body.dataset.complete = "yes";
  })();

  function apply() {
    const from = since();
    const [pipeline, reason] = [choice("pipeline"), choice("reason")];
    for (const each of document.querySelectorAll("[data-of]")) each.hidden = Boolean(pipeline) && each.dataset.of !== pipeline;
    for (const row of document.querySelectorAll("[data-at]")) row.hidden = Number(row.dataset.at) < from;
    for (const row of document.querySelectorAll("[data-reason]")) row.hidden = Boolean(reason) && row.dataset.reason !== reason;
    wanted.forEach(draw);
    const chosen = pipelines.filter((_, number) => !pipeline || String(number) === pipeline);
    const batches = chosen.flatMap((each) => each.records).filter((p) => p.at >= from);
    const records = batches.reduce((sum, p) => sum + p.offsets, 0);
    document.getElementById("shown").textContent = `${count(records, "record")} in ${count(batches.length, "commit")}`;
  }
  const samples = [...document.querySelectorAll("details.printed")];
  window.addEventListener("beforeprint", () => samples.forEach((each) => { each.open = true; }));
  document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());
  for (const select of document.querySelectorAll(".filters select")) select.addEventListener("change", apply);
  let waiting = 0;
  window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(() => wanted.forEach(draw), 100); });
  apply();
})();
