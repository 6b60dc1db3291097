// The table of samples, and the window that shows one. Every text goes into the page as a text node, never as markup.
"use strict";
(() => {
  const ROW = 34;
  const MARGIN = 8;
  const CLIP = 1500;
  const PAGE = 12;

  const find = (id) => document.getElementById(id);
  const samples = JSON.parse(find("sample-list").textContent);
  const total = samples.row.length;
  const whole = new Intl.NumberFormat("en");
  const spell = (value, digits) => (value === null ? "\u2013" : digits === undefined ? whole.format(value) : value.toFixed(digits));
  const seconds = (milliseconds) => `${(milliseconds / 1000).toFixed(1)}s`;
  const error = (i) => samples.errors[samples.error[i]] ?? "";
  const prompt = (i) => samples.prompts[samples.row[i]] ?? "";
  const label = (i) => samples.labels[samples.row[i]] ?? "";
  const outcome = (i) => samples.outcomes[samples.outcome[i]];
  const reward = (value) => (value === null ? "\u2013" : Math.abs(value) < 1e6 ? value.toFixed(3) : value.toExponential(2));
  const SIGNS = { passed: "\u2713", "not passed": "\u2717", failed: "\u26a0", skipped: "\u25cb", ungraded: "?" };

  const COLUMNS = [
    { name: "Row", number: true, text: (i) => String(samples.source_rows[samples.row[i]]), key: (i) => samples.row[i] },
    { name: "Run", number: true, text: (i) => String(samples.run[i]), key: (i) => samples.run[i] },
    { name: "Outcome", text: (i) => `${SIGNS[outcome(i)]} ${outcome(i)}`, key: (i) => samples.outcome[i] },
    { name: "Reward", number: true, text: (i) => reward(samples.reward[i]), key: (i) => samples.reward[i] },
    { name: "Tokens", number: true, text: (i) => spell(samples.tokens[i]), key: (i) => samples.tokens[i] },
    { name: "Context", number: true, text: (i) => spell(samples.context[i]), key: (i) => samples.context[i] },
    { name: "Time", number: true, text: (i) => seconds(samples.milliseconds[i]), key: (i) => samples.milliseconds[i] },
    { name: "Error or label", text: (i) => error(i) || label(i), key: (i) => error(i) || label(i) },
    { name: "Prompt", text: prompt, key: prompt },
  ];

  let shown = Array.from({ length: total }, (_, i) => i);
  let sorted = { column: 0, down: false };
  let active = 0;
  const grid = find("grid");
  const body = find("grid-body");
  const space = find("grid-space");
  const dialog = find("sample");

  const make = (tag, className, text) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.append(text);
    return element;
  };

  // ---- which samples, in which order ----------------------------------------------------------------------------------
  const haystack = new Array(total);
  const words = (i) => (haystack[i] ??= `${prompt(i)}\n${label(i)}\n${error(i)}`.toLowerCase());

  function compare(one, other) {
    if (one === other) return 0;
    if (one === null) return 1;
    if (other === null) return -1;
    return (one < other ? -1 : 1) * (sorted.down ? -1 : 1);
  }

  function choose() {
    const text = find("filter-text").value.trim().toLowerCase();
    const kind = Number(find("filter-outcome").value);
    const fault = Number(find("filter-error").value);
    const kept = [];
    for (let i = 0; i < total; i += 1) {
      if (kind >= 0 && samples.outcome[i] !== kind) continue;
      if (fault >= 0 && samples.error[i] !== fault) continue;
      if (text && !words(i).includes(text)) continue;
      kept.push(i);
    }
    const { key } = COLUMNS[sorted.column];
    const keys = new Map(kept.map((i) => [i, key(i)]));
    kept.sort((a, b) => compare(keys.get(a), keys.get(b)) || a - b);
    shown = kept;
    active = 0;
    body.scrollTop = 0;
    space.style.height = `${shown.length * ROW}px`;
    grid.setAttribute("aria-rowcount", String(shown.length + 1));
    find("shown").textContent = `${whole.format(shown.length)} of ${whole.format(total)} samples`;
    draw();
  }

  // ---- the rows that can be seen, and no others -------------------------------------------------------------------------
  function draw() {
    const first = Math.max(Math.floor(body.scrollTop / ROW) - MARGIN, 0);
    const last = Math.min(Math.ceil((body.scrollTop + body.clientHeight) / ROW) + MARGIN, shown.length);
    const rows = [];
    for (let place = first; place < last; place += 1) rows.push(row(place));
    space.replaceChildren(...rows);
    const current = active >= first && active < last;
    if (current) grid.setAttribute("aria-activedescendant", `place-${active}`);
    else grid.removeAttribute("aria-activedescendant");
  }

  function row(place) {
    const i = shown[place];
    const element = make("div", place === active ? "row active" : "row");
    element.id = `place-${place}`;
    element.setAttribute("role", "row");
    element.setAttribute("aria-rowindex", String(place + 2));
    element.setAttribute("aria-selected", String(place === active));
    element.style.top = `${place * ROW}px`;
    for (const column of COLUMNS) {
      const cell = make("span", column.number ? "number" : "", column.text(i));
      cell.setAttribute("role", "gridcell");
      if (column.name === "Outcome") cell.classList.add(outcome(i) === "passed" ? "passed" : outcome(i) === "failed" ? "failed" : "other");
      element.append(cell);
    }
    element.addEventListener("click", () => { active = place; draw(); open(); });
    return element;
  }

  function header() {
    const element = make("div", "row");
    element.setAttribute("role", "row");
    element.setAttribute("aria-rowindex", "1");
    COLUMNS.forEach((column, number) => {
      const cell = make("span", column.number ? "number" : "");
      cell.setAttribute("role", "columnheader");
      const button = make("button", "", column.name);
      button.type = "button";
      button.addEventListener("click", () => {
        sorted = { column: number, down: sorted.column === number && !sorted.down };
        mark();
        choose();
      });
      cell.append(button);
      element.append(cell);
    });
    find("grid-header").append(element);
    mark();
  }

  function mark() {
    find("grid-header").querySelectorAll("[role=columnheader]").forEach((cell, number) => {
      const here = number === sorted.column;
      cell.setAttribute("aria-sort", here ? (sorted.down ? "descending" : "ascending") : "none");
      cell.firstChild.textContent = COLUMNS[number].name + (here ? (sorted.down ? " \u25bc" : " \u25b2") : "");
    });
  }

  function move(place) {
    if (!shown.length) return;
    active = Math.min(Math.max(place, 0), shown.length - 1);
    const top = active * ROW;
    if (top < body.scrollTop) body.scrollTop = top;
    else if (top + ROW > body.scrollTop + body.clientHeight) body.scrollTop = top + ROW - body.clientHeight;
    draw();
  }

  const MOVES = {
    ArrowDown: () => active + 1, ArrowUp: () => active - 1, PageDown: () => active + PAGE, PageUp: () => active - PAGE,
    Home: () => 0, End: () => shown.length - 1,
  };

  grid.addEventListener("keydown", (event) => {
    if (event.target !== grid || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in MOVES) move(MOVES[event.key]());
    else if (event.key === "Enter" && shown.length) open();
    else return;
    event.preventDefault();
  });

  // ---- one sample ---------------------------------------------------------------------------------------------------------
  const unpacked = new Map();

  async function unpack(number) {
    if (!unpacked.has(number)) {
      const bytes = Uint8Array.from(atob(find(`pack-${number}`).textContent), (letter) => letter.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      if (unpacked.size > 4) unpacked.delete(unpacked.keys().next().value);
      unpacked.set(number, JSON.parse(await new Response(stream).text()));
    }
    return unpacked.get(number);
  }

  function passage({ text, more = 0 }) {
    const block = make("div");
    const clipped = text.length > CLIP;
    const words = make("div", "passage", clipped ? text.slice(0, CLIP) : text);
    block.append(words);
    if (clipped) {
      const button = make("button", "cut", `Show ${whole.format(text.length - CLIP)} more characters`);
      button.type = "button";
      button.addEventListener("click", () => { words.textContent = text; button.remove(); });
      block.append(button);
    }
    if (more) block.append(make("p", "cut note", `${whole.format(more)} further characters stand in the run's own files only.`));
    return block;
  }

  function folded(title, parts) {
    const details = make("details");
    details.append(make("summary", "", title), ...parts);
    return details;
  }

  function turn({ role, message, reasoning, calls = [], observations = [] }) {
    const element = make("article", `turn ${role}`);
    element.append(make("h3", "", role));
    if (reasoning) element.append(folded("Reasoning", [passage(reasoning)]));
    if (message.text || message.more) element.append(passage(message));
    for (const call of calls) {
      const parts = [make("h4", "", "Arguments"), passage(call.arguments)];
      for (const result of call.results ?? []) parts.push(make("h4", "", "Result"), passage(result));
      element.append(folded(`Tool call: ${call.name}`, parts));
    }
    for (const text of observations) element.append(folded("Observation", [passage(text)]));
    return element;
  }

  async function open() {
    const place = active;
    const i = shown[place];
    const texts = (await unpack(Math.floor(i / samples.pack)))[i % samples.pack];
    if (place !== active) return;
    find("sample-title").textContent = `Row ${samples.source_rows[samples.row[i]]}, run ${samples.run[i]}`;
    const facts = make("dl");
    const values = [
      ["Outcome", outcome(i)], ["Reward", samples.reward[i] === null ? "\u2013" : String(samples.reward[i])],
      ["Tokens", spell(samples.tokens[i])], ["Time", seconds(samples.milliseconds[i])], ["Error", error(i)],
      ["Rollout", texts.rollout_id],
    ];
    for (const [name, value] of values.filter((pair) => pair[1])) {
      const fact = make("div");
      fact.append(make("dt", "", name), make("dd", "", value));
      facts.append(fact);
    }
    const parts = [facts];
    for (const [title, text] of [["Prompt", texts.prompt], ["Label", texts.label], ["Error message", texts.error],
      ["Metrics", texts.metrics], ["Metadata of the row", texts.metadata]]) {
      if (text) parts.push(make("h3", "", title), passage(text));
      else if (title === "Metrics" && samples.metered) parts.push(make("h3", "", title), make("p", "note", "None were stored."));
    }
    const { turns = [], left_out: leftOut = 0, trouble } = texts.conversation;
    parts.push(make("h3", "", "Trajectory"));
    if (trouble) parts.push(make("p", "note", trouble));
    parts.push(...turns.map(turn));
    if (leftOut) parts.push(make("p", "note", `${whole.format(leftOut)} further messages stand in the run's own files only.`));
    find("sample-body").replaceChildren(...parts);
    // A button that is disabled takes the focus, and so the keyboard, with it.
    find("sample-previous").disabled = place === 0;
    find("sample-next").disabled = place === shown.length - 1;
    if (!dialog.open) dialog.showModal();
    else if (document.activeElement === document.body || document.activeElement.disabled) find("sample-close").focus();
    dialog.scrollTop = 0;
  }

  function step(by) {
    if (active + by < 0 || active + by >= shown.length) return;
    move(active + by);
    open();
  }

  find("sample-previous").addEventListener("click", () => step(-1));
  find("sample-next").addEventListener("click", () => step(1));
  find("sample-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => grid.focus());
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      event.preventDefault();
      step(event.key === "ArrowLeft" ? -1 : 1);
    }
  });

  // ---- the beginning ------------------------------------------------------------------------------------------------------
  function options(select, names) {
    names.forEach((name, number) => {
      const option = make("option", "", name);
      option.value = String(number);
      select.append(option);
    });
  }

  options(find("filter-outcome"), samples.outcomes);
  options(find("filter-error"), samples.errors);
  find("filters").addEventListener("input", choose);
  find("filters").addEventListener("submit", (event) => event.preventDefault());
  body.addEventListener("scroll", draw, { passive: true });
  window.addEventListener("resize", draw);
  header();
  choose();
})();
