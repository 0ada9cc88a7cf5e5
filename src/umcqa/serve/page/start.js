// Which part of the page is shown, by the address: #answer, #banks, #banks/<id>.
import { getJson } from "./api.js";
import { startAsking } from "./asking.js";
import { showBanks, startReviewing } from "./reviewing.js";

function route() {
  const [part, id] = location.hash.slice(1).split("/");
  const name = part === "banks" ? "banks" : "answer";
  for (const section of document.querySelectorAll("main > section")) {
    section.hidden = section.id !== name;
  }
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (name === "banks") showBanks(id);
}

window.addEventListener("hashchange", () => {
  route();
  scrollTo(0, 0);
});
startReviewing();
route();
const [about] = await Promise.all([getJson("/v1/about"), startAsking()]);
document.getElementById("about").textContent =
  `umcqa ${about.version}. Questions are answered by ${about.by}, on this server; nothing is sent elsewhere.`;
