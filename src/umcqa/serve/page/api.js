// Requests to this server: problems become errors with a text for people; a token is asked for once.

const TOKEN = "umcqa-token";

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** A response of the API; asks for the token and tries again where one is needed. */
export async function request(path, options = {}) {
  const headers = { ...options.headers };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch {
    throw new Refused(0, "The server cannot be reached. Is it still running?");
  }
  if (response.status === 401) {
    await askForToken();
    return request(path, options);
  }
  if (!response.ok) throw new Refused(response.status, await problemOf(response));
  return response;
}

export async function getJson(path) {
  return (await request(path)).json();
}

export async function postJson(path, body) {
  const headers = { "Content-Type": "application/json" };
  return (await request(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

/** Save a response as a file. A plain link could not send the token. */
export async function download(path) {
  const response = await request(path);
  const told = /filename\*=UTF-8''(.+)/.exec(response.headers.get("Content-Disposition") ?? "");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = told ? decodeURIComponent(told[1]) : "download";
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

async function problemOf(response) {
  try {
    const problem = await response.json();
    return problem.detail ?? response.statusText;
  } catch {
    return `${response.status} ${response.statusText}`;
  }
}

let asking = null; // several requests may be refused at once: one question is enough

function askForToken() {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("token-dialog");
    const field = document.getElementById("token");
    field.value = "";
    dialog.addEventListener(
      "close",
      () => {
        sessionStorage.setItem(TOKEN, field.value);
        asking = null;
        resolve();
      },
      { once: true },
    );
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.showModal();
  });
  return asking;
}
