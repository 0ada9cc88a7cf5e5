// The report's own script: gives the browser of questions its records, one set at a time.
{
  const data = JSON.parse(document.getElementById("records").textContent);
  const browser = new QuestionBrowser(document.getElementById("browser"));
  const leftOut = document.getElementById("left-out");
  let positions = new Map(); // from a question's place in its set to its place in the browser

  const showSet = (number) => {
    const set = data.sets[number];
    for (const part of document.querySelectorAll("[data-set]")) {
      part.hidden = part.dataset.set !== String(number);
    }
    positions = new Map(set.records.map((record, index) => [record.position, index]));
    browser.setRecords(
      set.records.map((record) => ({ ...record, passage: data.passages[record.passage] })),
    );
    leftOut.hidden = set.records.length === set.n;
    leftOut.textContent = `Of ${set.n} questions, the ${set.records.length} most doubtful are here.`;
  };

  for (const button of document.querySelectorAll("input[name=set]")) {
    button.addEventListener("change", () => showSet(Number(button.value)));
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-position]");
    if (link) browser.show(positions.get(Number(link.dataset.position)));
  });
  // A reload may come back with another button pressed.
  showSet(Number(document.querySelector("input[name=set]:checked")?.value ?? 0));
}
