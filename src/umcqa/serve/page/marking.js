// Marks on their way to the server: one after the other, and again until it has them.
import { postJson } from "./api.js";

const AGAIN_MS = 2000;

export class Marks {
  /** `tell(text, isWrong)` hears how it goes. */
  constructor(tell) {
    this._tell = tell;
    this._waiting = [];
    this._isSending = false;
    window.addEventListener("beforeunload", (event) => {
      if (this._waiting.length) event.preventDefault(); // the browser asks whether to leave
    });
  }

  add(bank, question, choice) {
    this._waiting.push({ path: `/v1/banks/${bank.id}/marks`, body: { question, choice }, n: bank.n });
    if (!this._isSending) this._send();
  }

  async _send() {
    this._isSending = true;
    while (this._waiting.length) {
      const { path, body, n } = this._waiting[0];
      try {
        const { marked } = await postJson(path, body);
        this._waiting.shift();
        if (!this._waiting.length) this._tell(`${marked} of ${n} marked. All marks are saved.`);
      } catch (error) {
        if (error.status >= 400 && error.status < 500 && error.status !== 429) {
          this._waiting.shift(); // will not be taken at another time either
          this._tell(`A mark was not taken: ${error.message}`, true);
          continue;
        }
        this._tell(`${this._waiting.length} not saved yet, trying again. ${error.message}`, true);
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      }
    }
    this._isSending = false;
  }
}
