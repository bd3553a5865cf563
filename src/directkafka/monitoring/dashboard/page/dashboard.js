// The page of directkafka: shows what the server has observed. Whatever comes from outside is put in as text, never as
// markup. The server sends a line on each pipeline when there is news; details of the chosen one are fetched then.

const PARTITIONS_SHOWN = 50;
const BADGES = {
  "unknown": "bad", "failed": "bad", "stands still": "bad", "retrying": "warn", "behind": "warn", "paused": "warn",
  "running": "good", "caught up": "good",
};
const HISTORY = ["lag", "lag_seconds", "records_per_s", "rows_per_s"];

const byId = (id) => document.getElementById(id);
const state = {
  pipelines: [], chosen: null, isFetching: false, isStale: false, seen: null, token: null, reason: null, plan: null,
  letterQuestions: 0, planQuestions: 0,
};

// --- what is shown of a value -------------------------------------------------------------------------------------

const numbers = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const number = (value) => (value === null || value === undefined ? "–" : numbers.format(value));

function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 120) return `${value.toFixed(0)} s`;
  if (value < 7200) return `${(value / 60).toFixed(0)} min`;
  return `${(value / 3600).toFixed(1)} h`;
}

// Times are UTC, as in logs, dead letters and what a reset takes.
const ago = (ms) => (ms ? `${seconds(Math.max(0, (Date.now() - ms) / 1000))} ago` : "–");
const clock = (ms) => new Date(ms).toISOString().slice(11, 19);
const day = (ms) => `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")}Z`;
// A timestamp may be any number of 64 bits, and a Date has none beyond this.
const LAST_MS = 8.64e15;
const moment = (ms) =>
  ms === null || Math.abs(ms) > LAST_MS ? "–" : new Date(ms).toISOString().replace(".000Z", "Z");

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

const cell = (text, className = "") => element("td", { className }, text);
const figure = (text, className = "") => cell(text, `number ${className}`);

const shown = new Map();

/** Puts children in place of others, if what they are made of differs: a selection, a tooltip, a reader's place stay. */
function replace(parent, content, make) {
  const text = JSON.stringify(content);
  if (shown.get(parent) === text) return;
  shown.set(parent, text);
  parent.replaceChildren(...make());
}

function setText(id, text) {
  const found = byId(id);
  if (found.textContent !== text) found.textContent = text;
}

function showBadge(badge, condition) {
  badge.textContent = condition;
  badge.className = `badge ${BADGES[condition] ?? ""}`;
}

// --- requests -------------------------------------------------------------------------------------------------------

const login = () => (state.token ? { "authorization": `Bearer ${state.token}` } : {});

async function get(path, query) {
  const answer = await fetch(`${path}?${new URLSearchParams(query)}`, { cache: "no-store", headers: login() });
  return await told(answer);
}

async function post(path, content) {
  const headers = { "content-type": "application/json", ...login() };
  return await told(await fetch(path, { method: "POST", headers, body: JSON.stringify(content) }));
}

async function told(answer) {
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error);
  return content;
}

// --- all pipelines --------------------------------------------------------------------------------------------------

function showPipelines() {
  const body = byId("pipelines").tBodies[0];
  if (!state.pipelines.length) {
    const none = element("td", { colSpan: 8, className: "quiet" }, "No pipeline has started yet.");
    body.replaceChildren(element("tr", {}, none));
    return;
  }
  const rows = new Map([...body.rows].filter((row) => row.dataset.name).map((row) => [row.dataset.name, row]));
  const names = state.pipelines.map((pipeline) => pipeline.name);
  if (rows.size !== names.length || !names.every((name) => rows.has(name))) {
    const made = names.map((name) => rows.get(name) ?? rowOf(name));
    body.replaceChildren(...made);
    made.forEach((row) => rows.set(row.dataset.name, row));
  }
  for (const pipeline of state.pipelines) {
    const row = rows.get(pipeline.name);
    row.setAttribute("aria-current", String(pipeline.name === state.chosen));
    const badge = row.querySelector(".badge");
    if (badge.textContent !== pipeline.condition) showBadge(badge, pipeline.condition);
    badge.title = pipeline.because;
    const texts = [
      number(pipeline.lag), seconds(pipeline.lag_seconds), number(pipeline.records_per_s), number(pipeline.rows_per_s),
      ago(pipeline.committed_at_ms), number(pipeline.generation),
    ];
    texts.forEach((text, place) => { row.cells[place + 2].textContent = text; });
  }
}

function rowOf(name) {
  const button = element("button", { type: "button", onclick: () => choose(name, true) }, name);
  const row = element("tr", {}, cell(button), cell(element("span", { className: "badge" })), figure(""), figure(""),
    figure("", "wide"), figure("", "wide"), figure("", "wide"), figure("", "wide"));
  row.dataset.name = name;
  return row;
}

function choose(name, byHand = false) {
  if (state.chosen !== name) {
    state.chosen = name;
    state.reason = state.plan = state.seen = null;
    state.letterQuestions += 1;
    state.planQuestions += 1;
    byId("letters").open = byId("reset").open = false;
    byId("effects").hidden = byId("reset-now").hidden = true;
    setText("reset-told", "Nothing is changed by looking.");
    setText("changes-told", "");
  }
  if (byHand) {
    history.replaceState(null, "", `#pipeline=${encodeURIComponent(name)}`);
    byId("detail").focus({ preventScroll: true });
    byId("detail").scrollIntoView({ block: "nearest" });
  }
  showPipelines();
  refresh();
}

// --- the chosen pipeline --------------------------------------------------------------------------------------------

async function refresh() {
  if (state.chosen === null) return;
  const summary = state.pipelines.find((pipeline) => pipeline.name === state.chosen);
  const seen = summary ? `${summary.name} ${summary.observed} ${summary.condition}` : null;
  if (seen !== null && seen === state.seen) return;
  if (state.isFetching) {
    state.isStale = true;
    return;
  }
  state.isFetching = true;
  try {
    const found = await get("/api/pipeline", { name: state.chosen });
    if (found.name === state.chosen) {
      showDetail(found);
      state.seen = seen;
    }
  } catch (error) {
    // It is not there any more, or the server does not answer: what was shown is not so now.
    setText("detail-head", state.chosen);
    showBadge(byId("badge"), "unknown");
    setText("because", error.message);
  } finally {
    state.isFetching = false;
  }
  if (state.isStale) {
    state.isStale = false;
    refresh();
  }
}

function showDetail(found) {
  setText("detail-head", found.name);
  showBadge(byId("badge"), found.condition);
  setText("because", found.because || "\u00a0");
  setText("tile-lag", number(found.lag));
  setText("tile-lag-seconds", seconds(found.lag_seconds));
  setText("tile-records", number(found.records_per_s));
  setText("tile-rows", number(found.rows_per_s));
  setText("tile-batch", number(found.batch_id));
  setText("tile-generation", number(found.generation));
  setText("tile-retries", number(found.retries));
  setText("tile-commit", ago(found.committed_at_ms));
  setText("letters-count", found.dead_letters === null ? "" : `(${number(found.dead_letters)})`);
  byId("changes").hidden = !(found.allows_changes && state.token);
  showCharts(found.history);
  showBatches(found.batches);
  showPartitions(found);
  replace(byId("events"), found.events, () => (found.events.length
    ? found.events.map((event) => element("li", { className: event.kind }, element("time", {}, day(event.at_ms)), event.text))
    : [element("li", { className: "quiet" }, "nothing yet")]));
}

function showBatches(batches) {
  const longest = Math.max(1, ...batches.map(timeOf));
  const most = Math.max(1, ...batches.map((batch) => batch.records ?? 0));
  let generation = batches.length ? batches[0].generation : null;
  replace(byId("batches"), batches, () => batches.slice(-100).map((batch) => {
    const isNew = batch.generation !== generation;
    generation = batch.generation;
    const bar = element("li", { title: describe(batch), className: isNew ? "new-generation" : "" });
    bar.setAttribute("aria-label", describe(batch));
    const parts = batch.plan_ms === null
      ? [["whole", (batch.records ?? 0) / most]]
      : ["plan", "write", "commit"].map((step) => [step, batch[`${step}_ms`] / longest]);
    for (const [name, share] of parts.reverse()) {
      const part = element("i", { className: name });
      part.style.height = `${Math.max(1, Math.round(share * 80))}px`;
      bar.append(part);
    }
    return bar;
  }));
  const last = batches.at(-1);
  setText("batches-told", last ? describe(last) : "No batch was seen yet.");
}

const timeOf = (batch) => (batch.plan_ms ?? 0) + (batch.write_ms ?? 0) + (batch.commit_ms ?? 0);

function describe(batch) {
  const times = batch.plan_ms === null
    ? "(how long its steps took is told by the page of the run itself: directkafka run --http)"
    : `in ${number(timeOf(batch))} ms: plan ${number(batch.plan_ms)}, write ${number(batch.write_ms)}, ` +
      `commit ${number(batch.commit_ms)}`;
  const first = batch.batch_id - batch.batch_count + 1;
  const which = batch.batch_count > 1 ? `Batches ${number(first)} to ${number(batch.batch_id)}` : `Batch ${number(batch.batch_id)}`;
  return `${which} of generation ${batch.generation}, ${day(batch.committed_at_ms)}: ` +
    `${number(batch.records)} records, ${number(batch.rows)} rows ${times}`;
}

function showPartitions({ positions, partitions, lag }) {
  const most = Math.max(1, ...positions.map((position) => position.lag ?? 0));
  replace(byId("partitions").tBodies[0], positions, () => {
    const first = positions.slice(0, PARTITIONS_SHOWN);
    const rows = first.map((position) => {
      const meter = element("meter", { max: most, value: position.lag ?? 0 });
      meter.setAttribute("aria-hidden", "true");
      return element("tr", {}, cell(`${position.topic}-${position.partition}`),
        element("td", { className: "number" }, number(position.lag), meter), figure(seconds(position.lag_seconds)),
        figure(number(position.current), "wide"), figure(number(position.end), "wide"));
    });
    if (partitions > first.length) {
      const unread = lag - first.reduce((sum, position) => sum + (position.lag ?? 0), 0);
      rows.push(element("tr", { className: "quiet" }, cell(`${number(partitions - first.length)} more`),
        figure(number(unread)), figure(""), figure("", "wide"), figure("", "wide")));
    }
    return rows;
  });
}

// --- charts ---------------------------------------------------------------------------------------------------------

const charts = {};

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function chart(id, series) {
  const place = byId(id);
  const axis = { stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") } };
  const scales = {};
  series.forEach((each) => { scales[each.scale] = { range: (_, low, high) => [0, Math.max(1, (high ?? 0) * 1.05)] }; });
  const sides = [...new Set(series.map((each) => each.scale))];
  const made = new uPlot({
    width: place.clientWidth || 300, height: 200, scales, legend: { live: true }, cursor: { y: false },
    axes: [{ ...axis, space: 70, values: (_, marks) => marks.map((mark) => timeAt(mark, marks)) }, ...sides.map((scale, side) => ({
      ...axis, scale, side: side ? 1 : 3, size: 58, grid: side ? { show: false } : axis.grid,
      values: (_, marks) => marks.map((mark) => (mark >= 1000 ? `${numbers.format(mark / 1000)}k` : String(mark))),
    }))],
    series: [{ label: "UTC", value: (_, value) => (value ? day(value * 1000) : "–") }, ...series.map((each) => ({
      label: each.label, scale: each.scale, stroke: colour(each.colour), width: 1.5, spanGaps: true,
      value: (_, value) => number(value),
    }))],
  }, [[], ...series.map(() => [])], place);
  const observer = new ResizeObserver(() => made.setSize({ width: place.clientWidth, height: 200 }));
  observer.observe(place);
  return { setData: (data) => made.setData(data), destroy: () => { observer.disconnect(); made.destroy(); } };
}

/** Hours and minutes; with seconds where the marks are less than ten minutes apart. */
function timeAt(mark, marks) {
  return clock(mark * 1000).slice(0, marks.at(-1) - marks[0] < 600 ? 8 : 5);
}

function makeCharts() {
  for (const made of Object.values(charts)) made.destroy();
  charts.lag = chart("chart-lag", [
    { label: "unread", scale: "offsets", colour: "lag" }, { label: "oldest, s", scale: "seconds", colour: "seconds" },
  ]);
  charts.rates = chart("chart-rates", [
    { label: "records/s", scale: "rate", colour: "plan" }, { label: "rows/s", scale: "rate", colour: "write" },
  ]);
}

function showCharts(samples) {
  state.samples = samples;
  const times = samples.at_ms.map((at) => at / 1000);
  const [lag, age, records, rows] = HISTORY.map((name) => samples[name]);
  charts.lag.setData([times, lag, age]);
  charts.rates.setData([times, records, rows]);
  const highest = (values) => number(values.reduce((most, value) => Math.max(most, value ?? 0), 0));
  byId("chart-lag").setAttribute("aria-label", `Unread records over time: now ${number(lag.at(-1))}, at most ${highest(lag)}`);
  byId("chart-rates").setAttribute("aria-label", `Records a second over time: now ${number(records.at(-1))}, at most ${highest(records)}`);
}

// --- dead letters ---------------------------------------------------------------------------------------------------

async function showLetters() {
  const name = state.chosen;
  if (name === null || !byId("letters").open) return;
  const question = ++state.letterQuestions;
  setText("letters-note", "looking …");
  try {
    const found = await get("/api/dead-letters", state.reason === null ? { name } : { name, reason: state.reason });
    if (question !== state.letterQuestions) return;
    setText("letters-note", found.note || `${number(found.count)} dead letters; some of those chosen are shown.`);
    const hadFocus = byId("reasons").contains(document.activeElement);
    byId("reasons").replaceChildren(...found.reasons.map(reasonButton));
    if (hadFocus) (byId("reasons").querySelector("[aria-pressed=true]") ?? byId("reasons").firstChild)?.focus();
    byId("letters-table").hidden = !found.letters.length;
    byId("letters-table").tBodies[0].replaceChildren(...found.letters.map((letter) => element("tr", {},
      cell(`${letter.topic}-${letter.partition}`), figure(number(letter.offset)), cell(moment(letter.timestamp_ms), "wide"),
      cell(letter.reason), cell(valueOf(letter)))));
  } catch (error) {
    if (question === state.letterQuestions) setText("letters-note", error.message);
  }
}

function reasonButton({ raw, reason, count }) {
  const isChosen = state.reason === raw;
  const button = element("button", { type: "button" }, `${reason} (${number(count)})`);
  button.setAttribute("aria-pressed", String(isChosen));
  button.onclick = () => {
    state.reason = isChosen ? null : raw;
    showLetters();
  };
  return button;
}

function valueOf(letter) {
  if (letter.value === null) return "(none: a tombstone)";
  return letter.byte_count > 2000 ? `${letter.value} … (${number(letter.byte_count)} bytes)` : letter.value;
}

// --- resets and pauses ----------------------------------------------------------------------------------------------

const form = byId("reset-form");

function readForm() {
  const asked = { name: state.chosen };
  for (const field of ["to", "value", "topic", "rows"]) asked[field] = form.elements[field].value;
  return asked;
}

async function planReset(event) {
  event.preventDefault();
  if (state.chosen === null) return;
  forgetPlan();
  const asked = readForm();
  const question = state.planQuestions;
  setText("reset-told", "looking …");
  byId("effects").hidden = true;
  try {
    const plan = await get("/api/reset", asked);
    // The form was changed meanwhile, or another pipeline was chosen: this is no answer to what is seen now.
    if (question !== state.planQuestions) return;
    showEffects(plan, plan.changes_something ? "Nothing is changed yet." : "The pipeline is there already.");
    state.plan = { asked, offsets: plan.offsets };
    byId("reset-now").hidden = !(plan.changes_something && state.token && !byId("changes").hidden);
  } catch (error) {
    if (question === state.planQuestions) setText("reset-told", error.message);
  }
}

/** What is shown does not count any more. */
function forgetPlan() {
  state.planQuestions += 1;
  state.plan = null;
  byId("reset-now").hidden = true;
}

function showEffects(plan, verdict) {
  const nothing = plan.changes_something && !plan.effects.length ? ["No table loses or doubles anything."] : [];
  setText("reset-told", [verdict, ...nothing, ...plan.remarks.map((remark) => `Note: ${remark}`)].join("\n"));
  const rows = [
    ...plan.totals.map((total) => effectRow(total, "total")), ...plan.effects.map((effect) => effectRow(effect, "")),
  ];
  byId("effects").hidden = !rows.length;
  byId("effects").tBodies[0].replaceChildren(...rows);
}

function effectRow(effect, className) {
  const partition = effect.topic === null ? "in all" : `${effect.topic}-${effect.partition}`;
  return element("tr", { className }, cell(effect.sink), cell(partition), cell(effect.effect),
    figure(number(effect.current)), figure(number(effect.new)), figure(number(effect.offsets)),
    figure(number(effect.records_max)), figure(number(effect.rows)),
    cell(effect.first_at ?? "–", "wide"), cell(effect.last_at ?? "–", "wide"));
}

async function resetNow() {
  const { asked, offsets } = state.plan;
  const to = [form.elements.to.selectedOptions[0].textContent, asked.value].filter(Boolean).join(" ");
  const rows = asked.rows === "delete" ? "rows deleted" : "rows kept";
  const question = `Reset ${asked.name}, to go on ${to}, ${rows}? A driver that runs is stopped; start it again afterwards.`;
  if (!confirm(question)) return;
  forgetPlan();
  const number = state.planQuestions;
  setText("reset-told", "resetting …");
  byId("reset-told").focus();
  // The offsets that were shown, wherever the pipeline is by now.
  const value = offsets.map((each) => `"${each.topic}",${each.partition},${each.offset}`).join("\n");
  try {
    const done = await post("/api/reset", { name: asked.name, to: "offsets", value, rows: asked.rows });
    const told = done.changes_something ? "It is reset. Start the pipeline again if this has stopped it." : "Nothing was to be changed.";
    if (number === state.planQuestions) showEffects(done, told);
  } catch (error) {
    if (number === state.planQuestions) setText("reset-told", error.message);
  }
}

async function setPaused(isPaused) {
  const name = state.chosen;
  setText("changes-told", "…");
  let told;
  try {
    const { changed } = await post("/api/pause", { name, paused: String(isPaused) });
    const word = isPaused ? "paused" : "resumed";
    told = changed ? `${word}; the driver notices within 2 s` : `it is ${word} already`;
  } catch (error) {
    told = error.message;
  }
  if (name === state.chosen) setText("changes-told", told);
}

// --- beginning ------------------------------------------------------------------------------------------------------

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  try {
    if (given.has("token")) sessionStorage.setItem("directkafka-token", given.get("token"));
    state.token = sessionStorage.getItem("directkafka-token");
  } catch {
    state.token = given.get("token");
  }
  // The token must not stay in the history, or be seen by whoever looks at the screen.
  if (given.has("token")) history.replaceState(null, "", location.pathname);
  if (given.has("pipeline") && given.get("pipeline") !== state.chosen) choose(given.get("pipeline"));
}

function listen() {
  const source = new EventSource("/api/events");
  source.onopen = () => {
    setText("connection", "live");
    byId("connection").className = "";
  };
  source.onerror = () => {
    setText("connection", "no connection: shown is what was known last");
    byId("connection").className = "lost";
    // After an answer that is no stream, as a proxy's, the browser does not try again by itself.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
  };
  source.onmessage = (event) => {
    state.pipelines = JSON.parse(event.data).pipelines;
    if (state.chosen === null && state.pipelines.length) state.chosen = state.pipelines[0].name;
    showPipelines();
    refresh();
  };
}

makeCharts();
readAddress();
addEventListener("hashchange", readAddress);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  makeCharts();
  if (state.samples) showCharts(state.samples);
});
form.addEventListener("submit", planReset);
form.addEventListener("input", forgetPlan);
form.elements.to.addEventListener("change", () => {
  form.elements.value.disabled = ["earliest", "latest"].includes(form.elements.to.value);
});
byId("reset-now").addEventListener("click", resetNow);
byId("pause").addEventListener("click", () => setPaused(true));
byId("resume").addEventListener("click", () => setPaused(false));
byId("letters").addEventListener("toggle", showLetters);
listen();
