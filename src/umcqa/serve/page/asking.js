// The part of the page where people ask: a passage, questions, choices, and the answers.
/* global QuestionBrowser, make, letter */
import { getJson, postJson } from "./api.js";
import { takeApart } from "./pasting.js";

const MAX_CHOICES = 26;
const $ = (id) => document.getElementById(id);
let browser = null;
let samples = [];

export async function startAsking() {
  addQuestion();
  $("add-question").addEventListener("click", () => addQuestion().querySelector("input").focus());
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    answer();
  });
  $("ask").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("ask").requestSubmit();
  });
  $("sample").addEventListener("change", () => useSample(samples[$("sample").value]));
  samples = await getJson("/v1/samples");
  const options = samples.map((one, number) => make("option", { value: String(number) }, one.title));
  $("sample").append(...options);
}

function useSample(sample) {
  if (!sample) return;
  $("passage").value = sample.passage;
  setQuestions(sample.questions);
}

function setQuestions(questions) {
  $("asked").replaceChildren();
  for (const one of questions) addQuestion(one.question, one.choices);
}

// --- the form ----------------------------------------------------------------------------------

function addQuestion(text = "", choices = ["", ""]) {
  const field = make("input", { value: text, required: true, maxLength: 2000, className: "question" });
  field.addEventListener("paste", (event) => paste(event, block));
  const list = make("ol");
  const more = make("button", { type: "button" }, "Add a choice");
  const away = make("button", { type: "button", className: "away" }, "Remove this question");
  const block = make(
    "fieldset",
    {},
    make("legend"),
    make("label", { className: "field" }, "Question", field),
    list,
    make("div", { className: "row" }, more, away),
  );
  for (const choice of choices) addChoice(list, choice);
  more.addEventListener("click", () => addChoice(list).querySelector("input").focus());
  away.addEventListener("click", () => {
    block.remove();
    number();
    $("add-question").focus();
  });
  $("asked").append(block);
  number();
  return block;
}

function addChoice(list, text = "") {
  const field = make("input", { value: text, required: true, maxLength: 2000 });
  const away = make("button", { type: "button" }, "×");
  const item = make("li", {}, make("span", { className: "letter", ariaHidden: "true" }), field, away);
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
    event.preventDefault(); // goes on to the next choice
    const next = item.nextElementSibling ?? (field.value.trim() ? addChoice(list) : item);
    next.querySelector("input").focus();
  });
  away.addEventListener("click", () => {
    const near = item.nextElementSibling ?? item.previousElementSibling;
    item.remove();
    number();
    near?.querySelector("input").focus();
  });
  list.append(item);
  number();
  return item;
}

/** Letters and names, which change as parts come and go. */
function number() {
  const blocks = [...$("asked").children];
  blocks.forEach((block, index) => {
    block.querySelector("legend").textContent = `Question ${index + 1}`;
    block.querySelector(".away").hidden = blocks.length === 1;
    const items = [...block.querySelectorAll("li")];
    items.forEach((item, choice) => {
      const [mark, field, away] = item.children;
      mark.textContent = letter(choice);
      field.ariaLabel = `Choice ${letter(choice)} of question ${index + 1}`;
      away.ariaLabel = `Remove choice ${letter(choice)}`;
      away.hidden = items.length <= 2;
    });
    block.querySelector(".row button").disabled = items.length >= MAX_CHOICES;
  });
}

/** A pasted list of questions fills this question and as many more. */
function paste(event, block) {
  const found = takeApart(event.clipboardData.getData("text"));
  if (!found.length) return;
  event.preventDefault();
  const before = readForm().filter((one, index) => one.question.trim() && $("asked").children[index] !== block);
  setQuestions([...before, ...found]);
}

function readForm() {
  return [...$("asked").children].map((block) => ({
    question: block.querySelector(".question").value,
    choices: [...block.querySelectorAll("li input")].map((field) => field.value),
  }));
}

// --- the answers -------------------------------------------------------------------------------

async function answer() {
  const button = $("ask").querySelector("[type=submit]");
  const passage = $("passage").value;
  const questions = readForm().map((one) => ({ passage, ...one }));
  button.disabled = true;
  tell("Reading …");
  try {
    const { answers } = await postJson("/v1/answer", { questions });
    show(questions, answers);
    tell("");
  } catch (error) {
    tell(error.message, true);
  } finally {
    button.disabled = false;
  }
}

function show(questions, answers) {
  const root = $("answers");
  browser ??= new QuestionBrowser(root);
  root.hidden = false;
  root.previousElementSibling.hidden = true;
  root.classList.toggle("only-one", answers.length === 1);
  const records = answers.map((one, index) => ({
    ...questions[index],
    id: `Question ${index + 1}`,
    chosen: one.answer,
    probabilities: one.probabilities,
    evidence: one.evidence,
    confidence: one.confidence,
  }));
  browser.setRecords(records);
  browser.setOrder("data");
  $("result").focus({ preventScroll: true });
  if (window.innerWidth < 960) $("result").scrollIntoView();
}

function tell(text, isWrong = false) {
  $("ask-status").textContent = text;
  $("ask-status").classList.toggle("is-wrong", isWrong);
}
