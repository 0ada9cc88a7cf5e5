// A browser of answered questions: filters, a list, and one question with its evidence.
//
//   const browser = new QuestionBrowser(element, { records, onMark, withTable });
//
// A record: {id, passage, question, choices: [text], chosen: index, probabilities: [0 to 1],
// evidence: for each choice [[start, end], …] in code points of the passage, type, subsets: [text],
// confidence: 0 to 1, and where known answer: index, votes: {name: index}, marked: index or null}.
//
// With `onMark(id, choiceIndex | null)`, clicking a choice or its digit marks it as the answer, and
// the same again or Backspace takes that back; the record's `marked` holds it. Without it, a click
// keeps a choice's evidence shown. `withTable` adds a view of the questions as a table. A classic
// script, since modules cannot be loaded from disk.
"use strict";

class QuestionBrowser {
  static PAGE = 50;
  static BANDS = [
    ["", "any confidence"],
    ["0-0.5", "below 50%"],
    ["0.5-0.75", "50 to 75%"],
    ["0.75-0.9", "75 to 90%"],
    ["0.9-2", "90% and more"],
  ];
  static ORDERS = [
    ["doubt", "check first (doubtful)"],
    ["sure", "surest first"],
    ["data", "as in the data"],
  ];

  static MARKS = [
    ["", "marked or not"],
    ["open", "not marked yet"],
    ["marked", "marked"],
    ["corrected", "corrected"],
  ];
  static VIEWS = [
    ["single", "one by one"],
    ["table", "table"],
  ];

  constructor(root, { records = [], onMark = null, withTable = false } = {}) {
    this.root = root;
    this.onMark = onMark;
    this.withTable = withTable;
    root.classList.add("question-browser");
    root.addEventListener("keydown", (event) => this.takeKey(event));
    this._build();
    this.setRecords(records);
  }

  // --- for the page that holds it ------------------------------------------------------------

  /** Show other records; filters start anew. */
  setRecords(records) {
    this.records = records;
    this._folded = new Map(); // texts as they are searched, made when first needed
    const { subset, type, result } = this._filters;
    const subsets = new Set(records.flatMap((record) => record.subsets ?? []));
    fillSelect(subset, [["", "all subsets"], ...[...subsets].sort().map((one) => [one, one])]);
    const types = new Set(records.map((record) => record.type).filter(Boolean));
    fillSelect(type, [["", "all types"], ...[...types].sort().map((one) => [one, one])]);
    const results = records.some((record) => record.answer != null) ? ["right", "wrong"] : [];
    fillSelect(result, [["", "right and wrong"], ...results.map((one) => [one, one])]);
    for (const select of [subset, type, result]) {
      select.parentElement.hidden = select.options.length < 2;
    }
    this._clear();
  }

  /** Show the record at that place in the records, whatever the filters say. */
  show(index) {
    if (!this._shown.includes(index)) this._clear();
    this._select(index);
  }

  /** Go some questions on in the list as it is filtered and ordered. */
  step(by) {
    const place = this._shown.indexOf(this.current) + by;
    if (place >= 0 && place < this._shown.length) this._select(this._shown[place]);
  }

  /** Mark a choice of the current question; null, or the same choice again, takes it back. */
  mark(choice) {
    const record = this.records[this.current];
    if (!this.onMark || !record || choice >= record.choices.length) return;
    record.marked = choice === record.marked ? null : choice;
    this._render();
    this.onMark(record.id, record.marked);
  }

  /** By what the questions are ordered: doubt, sure or data. */
  get order() {
    return this._filters.order.value;
  }

  setOrder(order) {
    this._filters.order.value = order;
    this._apply();
  }

  // --- filters -------------------------------------------------------------------------------

  _build() {
    this._filters = {
      text: make("input", { type: "search", placeholder: "words in passage, question, choices" }),
      subset: make("select"),
      type: make("select"),
      result: make("select"),
      confidence: make("select"),
      marks: make("select"),
      order: make("select"),
      view: make("select"),
    };
    fillSelect(this._filters.confidence, QuestionBrowser.BANDS);
    fillSelect(this._filters.marks, QuestionBrowser.MARKS);
    fillSelect(this._filters.order, QuestionBrowser.ORDERS);
    fillSelect(this._filters.view, QuestionBrowser.VIEWS);
    const form = make("form", { className: "filters", role: "search", ariaLabel: "Which questions" });
    for (const [name, control] of Object.entries(this._filters)) {
      control.name = name;
      control.addEventListener(name === "text" ? "input" : "change", () => this._apply());
      const text = name === "text" ? "Search" : name[0].toUpperCase() + name.slice(1);
      form.append(make("label", {}, make("span", {}, text), control));
    }
    this._filters.marks.parentElement.hidden = !this.onMark;
    this._filters.view.parentElement.hidden = !this.withTable;
    const clear = make("button", { type: "button" }, "Clear");
    clear.addEventListener("click", () => this._clear());
    form.append(clear);
    form.addEventListener("submit", (event) => event.preventDefault());
    this._status = make("p", { className: "status", role: "status" });
    this._list = make("ol", { className: "list", ariaLabel: "Questions" });
    this._pager = make("div", { className: "pager" });
    this._detail = make("article", { className: "detail", ariaLabel: "The question" });
    this._side = make("div", { className: "side" }, this._list, this._pager);
    this._panes = make("div", { className: "panes" }, this._side, this._detail);
    this._table = make("div", { className: "rows", hidden: true });
    this.root.replaceChildren(form, this._status, this._panes, this._table);
  }

  _clear() {
    for (const [name, control] of Object.entries(this._filters)) {
      if (name !== "order" && name !== "view") control.value = "";
    }
    this._apply();
  }

  _apply() {
    const { text, subset, type, result, confidence, marks, order } = this._filters;
    const words = fold(text.value).split(/\s+/).filter(Boolean);
    const [least, most] = (confidence.value || "0-2").split("-").map(Number);
    const isResult = (record) =>
      record.answer != null && (record.answer === record.chosen) === (result.value === "right");
    const isMarked = {
      open: (record) => record.marked == null,
      marked: (record) => record.marked != null,
      corrected: (record) => record.marked != null && record.marked !== record.chosen,
    }[marks.value];
    const fits = (record) =>
      (!isMarked || isMarked(record)) &&
      (!subset.value || record.subsets?.includes(subset.value)) &&
      (!type.value || record.type === type.value) &&
      (!result.value || isResult(record)) &&
      record.confidence >= least &&
      record.confidence < most &&
      (!words.length || this._holds(record, words));
    this._shown = [...this.records.keys()].filter((index) => fits(this.records[index]));
    if (order.value !== "data") {
      const sign = order.value === "sure" ? -1 : 1;
      const doubt = (index) => sign * this.records[index].confidence;
      this._shown.sort((a, b) => doubt(a) - doubt(b));
    }
    const [n, all] = [this._shown.length, this.records.length];
    this._status.textContent = n === all ? `${n} questions` : `${n} of ${all} questions`;
    this._select(this._shown[0]);
  }

  /** Whether all words are in the record. A passage is folded once for all its questions. */
  _holds(record, words) {
    const folded = (key, makeText) => {
      if (!this._folded.has(key)) this._folded.set(key, fold(makeText()));
      return this._folded.get(key);
    };
    const passage = folded(record.passage, () => record.passage);
    const own = folded(record, () => [record.id, record.question, ...record.choices].join("\n"));
    return words.every((word) => own.includes(word) || passage.includes(word));
  }

  // --- the list ------------------------------------------------------------------------------

  _select(index) {
    this.current = index;
    this._pinned = null;
    this._page = Math.max(0, Math.floor(this._shown.indexOf(index) / QuestionBrowser.PAGE));
    this._render();
  }

  _render() {
    const focused = document.activeElement;
    const isInList = this._list.contains(focused);
    const atChoice = this._choices?.indexOf(focused) ?? -1;
    const isTable = this._filters.view.value === "table";
    this._panes.hidden = isTable;
    this._table.hidden = !isTable;
    if (isTable) this._renderTable();
    else this._renderList();
    this._renderPager(isTable ? this._table : this._side);
    this._renderQuestion();
    // What had the focus has been replaced: its successor gets it.
    if (isInList) this._list.querySelector("[aria-current]")?.focus();
    if (atChoice >= 0) (this._choices[atChoice] ?? this._choices.at(-1))?.focus();
  }

  _renderList() {
    const size = QuestionBrowser.PAGE;
    const start = this._page * size;
    const scrolled = this._list.scrollTop;
    const items = this._shown.slice(start, start + size).map((index) => this._item(index));
    this._list.start = start + 1;
    this._list.replaceChildren(...items);
    this._list.scrollTop = scrolled;
    keepInView(this._list, this._list.querySelector("[aria-current]"));
  }

  _renderPager(box) {
    const size = QuestionBrowser.PAGE;
    box.append(this._pager);
    const pages = Math.ceil(this._shown.length / size);
    const turn = (text, to) => {
      const isThere = to >= 0 && to < pages;
      const button = make("button", { type: "button", disabled: !isThere }, text);
      button.addEventListener("click", () => this._select(this._shown[to * size]));
      return button;
    };
    this._pager.hidden = pages < 2;
    this._pager.replaceChildren(
      turn("← Previous", this._page - 1),
      make("span", {}, `page ${this._page + 1} of ${pages}`),
      turn("Next →", this._page + 1),
    );
  }

  _item(index) {
    const record = this.records[index];
    const isCurrent = index === this.current;
    const facts = [`${letter(record.chosen)}, ${percent(record.confidence)} sure`];
    if (record.answer != null) facts.push(record.answer === record.chosen ? "✓ right" : "✗ wrong");
    if (record.marked != null) facts.push(`marked ${letter(record.marked)}`);
    const button = make(
      "button",
      { type: "button", tabIndex: isCurrent ? 0 : -1 },
      make("span", { className: "asked" }, record.question),
      make("span", { className: "facts" }, facts.join(" · ")),
      bar(record.confidence),
    );
    if (isCurrent) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => this._select(index));
    return make("li", {}, button);
  }

  _renderTable() {
    const size = QuestionBrowser.PAGE;
    const titles = ["Question", "Answer", "Sure", ...(this.onMark ? ["Marked"] : []), "Evidence"];
    const head = make("tr", {}, ...titles.map((title) => make("th", { scope: "col" }, title)));
    const rows = this._shown.slice(this._page * size, (this._page + 1) * size);
    const body = make("tbody", {}, ...rows.map((index) => this._row(index)));
    const table = make("table", {}, make("caption", {}, "Questions"), make("thead", {}, head), body);
    const scroller = make("div", { className: "scroller", tabIndex: 0, role: "region" }, table);
    scroller.ariaLabel = "Table of questions";
    this._table.replaceChildren(scroller);
  }

  _row(index) {
    const record = this.records[index];
    const open = make("button", { type: "button" }, record.question);
    open.addEventListener("click", () => {
      this._filters.view.value = "single";
      this._select(index);
      this._list.querySelector("[aria-current]")?.focus();
    });
    const name = (choice) => (choice == null ? "" : `${letter(choice)} ${record.choices[choice]}`);
    const places = record.evidence?.[record.chosen] ?? [];
    const evidence = cutAt(record.passage, places).filter(([, isEvidence]) => isEvidence);
    const cells = [
      name(record.chosen),
      make("span", { className: "sure" }, bar(record.confidence), percent(record.confidence)),
      ...(this.onMark ? [name(record.marked)] : []),
      evidence.map(([text]) => text).join(" … "),
    ];
    const row = make("tr", {}, make("th", { scope: "row" }, open));
    row.append(...cells.map((cell) => make("td", {}, cell)));
    row.classList.toggle("is-marked", record.marked != null);
    return row;
  }

  // --- one question --------------------------------------------------------------------------

  _renderQuestion() {
    const record = this.records[this.current];
    this._choices = record ? record.choices.map((_, choice) => this._choice(record, choice)) : [];
    if (!record) {
      this._detail.replaceChildren(make("p", { className: "none" }, "No question fits these filters."));
      return;
    }
    const tags = [record.id, record.type, ...(record.subsets ?? [])].filter(Boolean);
    this._passage = make("div", { className: "passage", tabIndex: 0 });
    Object.assign(this._passage, { role: "region", ariaLabel: "Passage" });
    this._told = make("p", { className: "told" });
    this._detail.replaceChildren(
      make("p", { className: "tags" }, ...tags.map((tag) => make("span", {}, tag))),
      make("h3", {}, record.question),
      make("ol", { className: "choices" }, ...this._choices.map((choice) => make("li", {}, choice))),
      ...this._votes(record),
      this._told,
      this._passage,
    );
    this._showEvidence();
  }

  _choice(record, choice) {
    const isChosen = choice === record.chosen;
    const isWrong = isChosen && record.answer != null && choice !== record.answer;
    const badges = [
      [isChosen, "chosen", ""],
      [choice === record.answer, "✓ right", "key"],
      [isWrong, "✗ wrong", "wrong"],
      [choice === record.marked, "marked", "marked"],
    ].filter(([isShown]) => isShown);
    const badge = ([, text, kind]) => make("span", { className: `badge ${kind}` }, text);
    const button = make(
      "button",
      { type: "button", className: "choice" },
      make("span", { className: "letter" }, letter(choice)),
      make("span", { className: "text" }, record.choices[choice]),
      make("span", { className: "badges" }, ...badges.map(badge)),
      bar(record.probabilities[choice]),
      make("span", { className: "percent" }, percent(record.probabilities[choice])),
    );
    button.classList.toggle("is-chosen", isChosen);
    for (const [begin, end] of [["mouseenter", "mouseleave"], ["focus", "blur"]]) {
      button.addEventListener(begin, () => this._showEvidence(choice));
      button.addEventListener(end, () => this._showEvidence());
    }
    button.addEventListener("click", () => {
      if (this.onMark) {
        this.mark(choice);
      } else {
        this._pinned = this._pinned === choice ? null : choice;
        this._showEvidence(choice);
      }
    });
    return button;
  }

  _votes(record) {
    const votes = Object.entries(record.votes ?? {});
    if (!votes.length) return [];
    const texts = votes.map(([name, choice]) => make("span", {}, `${name} ${letter(choice)}`));
    return [make("p", { className: "votes" }, "Chosen by: ", ...texts)];
  }

  /** Mark the evidence of a choice in the passage; of the kept or the chosen one if none is given. */
  _showEvidence(choice) {
    const record = this.records[this.current];
    if (!record) return;
    const focused = this._choices.indexOf(document.activeElement);
    const shown = choice ?? (focused >= 0 ? focused : null) ?? this._pinned ?? record.chosen;
    this._choices.forEach((button, index) => {
      button.classList.toggle("is-shown", index === shown);
      if (!this.onMark) button.setAttribute("aria-pressed", String(index === this._pinned));
    });
    const ranges = record.evidence?.[shown] ?? [];
    const lead = ranges.length ? "Evidence for" : "No evidence is given for";
    this._told.textContent = `${lead} ${letter(shown)}`;
    const pieces = cutAt(record.passage, ranges);
    this._passage.replaceChildren(
      ...pieces.map(([text, isEvidence]) => (isEvidence ? make("mark", {}, text) : text)),
    );
    keepInView(this._passage, this._passage.querySelector("mark"));
  }

  // --- the keyboard --------------------------------------------------------------------------

  /** What a key does. The page may pass on those that nothing else has taken. */
  takeKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea") || this._panes.hidden) return;
    const atChoice = this._choices.indexOf(event.target);
    const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    const isVertical = event.key === "ArrowUp" || event.key === "ArrowDown";
    if (isVertical && event.target === this._passage) return; // scrolls it
    if (isVertical && atChoice >= 0) {
      this._choices[atChoice + by]?.focus();
    } else if (by) {
      this.step(by);
    } else if (this.onMark && /^[1-9]$/.test(event.key)) {
      this.mark(Number(event.key) - 1);
    } else if (this.onMark && event.key === "Backspace") {
      this.mark(null);
    } else {
      return;
    }
    event.preventDefault();
  }
}

// --- small things ------------------------------------------------------------------------------

/** An element; texts become text nodes, so that nothing in data is taken for markup. */
function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  Object.assign(element, properties);
  element.append(...children);
  return element;
}

function fillSelect(select, options) {
  select.replaceChildren(...options.map(([value, text]) => make("option", { value }, text)));
}

function bar(share) {
  const fill = make("span");
  fill.style.width = percent(share);
  return make("span", { className: "bar", ariaHidden: "true" }, fill);
}

function percent(share) {
  return `${Math.round(100 * share)}%`;
}

function letter(choice) {
  return String.fromCharCode(65 + choice);
}

/** Texts that differ only in case or in how accents are encoded are the same to a search. */
function fold(text) {
  return text.normalize("NFKC").toLowerCase();
}

/**
 * The text cut into [piece, isInRange]. Ranges count code points, as Python does; JavaScript's own
 * indices count UTF-16 units, of which an emoji has two.
 */
function cutAt(text, ranges) {
  const characters = /[\ud800-\udfff]/.test(text) ? Array.from(text) : null;
  const length = characters?.length ?? text.length;
  const slice = (start, end) => characters?.slice(start, end).join("") ?? text.slice(start, end);
  const pieces = [];
  let done = 0;
  for (const [start, end] of [...ranges].sort((a, b) => a[0] - b[0])) {
    if (end <= done) continue;
    if (start > done) pieces.push([slice(done, start), false]);
    pieces.push([slice(Math.max(start, done), end), true]);
    done = end;
  }
  if (done < length) pieces.push([slice(done), false]);
  return pieces;
}

/** Scroll a box, and not the page around it, so that a part of it is seen. */
function keepInView(box, part) {
  if (!part) return;
  const [outer, inner] = [box.getBoundingClientRect(), part.getBoundingClientRect()];
  const [above, below] = [inner.top - outer.top - 8, inner.bottom - outer.bottom + 8];
  if (above < 0) box.scrollTop += above;
  else if (below > 0) box.scrollTop += Math.min(above, below);
}
