// The part of the page for question banks: upload, progress, review, downloads.
/* global QuestionBrowser, make */
import { download, getJson, postJson, request } from "./api.js";
import { Marks } from "./marking.js";

const POLL_MS = 700;
const $ = (id) => document.getElementById(id);
const isWorking = (bank) => bank.state === "waiting" || bank.state === "running";
let browser = null;
let current = null; // the bank that is open
let timer = null;
const marks = new Marks((text, isWrong) => tell("mark-status", text, isWrong));

export function startReviewing() {
  const drop = $("drop");
  $("file").addEventListener("change", () => upload($("file").files[0]));
  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("is-over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("is-over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("is-over");
    upload(event.dataTransfer.files[0]);
  });
  $("close-bank").addEventListener("click", () => (location.hash = "#banks"));
  $("cancel").addEventListener("click", () => act("cancel"));
  $("resume").addEventListener("click", () => act("resume"));
  for (const button of document.querySelectorAll("[data-download]")) {
    button.addEventListener("click", () => save(button.dataset.download));
  }
  document.addEventListener("keydown", (event) => {
    const isFree = event.target === document.body || event.target === $("bank-name");
    if (isFree && current && !$("review").hidden && !$("banks").hidden) browser.takeKey(event);
  });
}

/** Show the list of banks, or one of them. */
export async function showBanks(id) {
  clearTimeout(timer);
  current = null;
  $("shelf").hidden = Boolean(id);
  $("bank").hidden = !id;
  try {
    if (id) {
      await open(id);
    } else {
      const { banks } = await getJson("/v1/banks");
      $("bank-list").replaceChildren(...banks.map(item));
    }
  } catch (error) {
    if (id) location.hash = "#banks";
    tell("upload-status", error.message, true);
  }
}

function item(bank) {
  const facts = isWorking(bank) ? `${bank.done} of ${bank.n} answered` : `${bank.n} questions`;
  const button = make(
    "button",
    { type: "button" },
    make("strong", {}, bank.name),
    make("span", {}, `${bank.marked} marked`),
    make("span", {}, `${facts} · by ${bank.by}`),
    make("span", {}, bank.created.slice(0, 10)),
  );
  button.addEventListener("click", () => (location.hash = `#banks/${bank.id}`));
  return make("li", {}, button);
}

async function upload(file) {
  if (!file) return;
  const { upload_bytes: most } = await getJson("/v1/about");
  if (file.size > most) {
    // The server would break it off, which browsers take for a lost connection.
    const size = Math.floor(file.size / 1e6);
    tell("upload-status", `${file.name} has ${size} MB, and ${most >> 20} MiB are allowed: upload it in parts.`, true);
    return;
  }
  tell("upload-status", `Uploading ${file.name} …`);
  const body = new FormData();
  body.append("file", file);
  try {
    const bank = await (await request("/v1/banks", { method: "POST", body })).json();
    tell("upload-status", "");
    location.hash = `#banks/${bank.id}`;
  } catch (error) {
    tell("upload-status", error.message, true);
  } finally {
    $("file").value = "";
  }
}

// --- one bank ----------------------------------------------------------------------------------

async function open(id) {
  const bank = await getJson(`/v1/banks/${id}`);
  $("bank-name").textContent = bank.name;
  $("review").hidden = true;
  $("bank-name").focus();
  await follow(bank);
}

/** Show how far the bank is until it is done, and then its questions. */
async function follow(bank) {
  current = bank;
  const isDone = bank.state === "done";
  $("job").hidden = isDone;
  $("job-bar").max = bank.n;
  $("job-bar").value = bank.done;
  $("cancel").hidden = !isWorking(bank);
  $("resume").hidden = isWorking(bank);
  const states = { waiting: "Waiting", running: "Answering", cancelled: "Stopped", failed: "Failed" };
  const why = bank.problem ? `: ${bank.problem}` : "";
  tell("job-text", `${states[bank.state] ?? ""}: ${bank.done} of ${bank.n} answered${why}`, bank.state === "failed");
  if (!isWorking(bank)) {
    await showRecords(bank);
    return;
  }
  $("review").hidden = true;
  timer = setTimeout(async () => {
    try {
      const next = await getJson(`/v1/banks/${bank.id}`);
      if (current?.id === bank.id) await follow(next);
    } catch (error) {
      tell("job-text", `${error.message} Trying again …`, true);
      if (current?.id === bank.id) await follow(bank);
    }
  }, POLL_MS);
}

async function act(name) {
  clearTimeout(timer);
  try {
    await follow(await postJson(`/v1/banks/${current.id}/${name}`, {}));
  } catch (error) {
    tell("job-text", error.message, true);
  }
}

async function showRecords(bank) {
  const { passages, records } = await getJson(`/v1/banks/${bank.id}/records`);
  if (current !== bank) return; // somebody has gone on
  $("review").hidden = records.length === 0;
  browser ??= new QuestionBrowser($("bank-browser"), {
    onMark: (question, choice) => marks.add(current, question, choice),
    withTable: true,
  });
  browser.setRecords(records.map((record) => ({ ...record, passage: passages[record.passage] })));
  tell("mark-status", `${bank.marked} of ${bank.n} marked. Answered by ${bank.by}.`);
}

async function save(name) {
  const order = browser.order === "doubt" && name !== "labels.jsonl" ? "?order=check-first" : "";
  try {
    await download(`/v1/banks/${current.id}/${name}${order}`);
  } catch (error) {
    tell("mark-status", error.message, true);
  }
}

function tell(id, text, isWrong = false) {
  $(id).textContent = text;
  $(id).classList.toggle("is-wrong", isWrong);
}
