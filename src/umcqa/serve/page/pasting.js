// Questions as people have them in a document, taken apart:
//
//   1. Where did Mia plant the beans?
//   A) behind the shed
//   B) in the kitchen

const CHOICE = /^\s*\(?([A-Za-z]|\d{1,2})[).:]\s+(\S.*)$/;
const NUMBER = /^\s*(?:question\s*)?\d{1,3}[).:]\s+/i;

/** [{question, choices}], or nothing where the text is not such a list. */
export function takeApart(text) {
  const found = [];
  for (const line of text.split(/\r?\n/).filter((one) => one.trim())) {
    const last = found.at(-1);
    const choice = CHOICE.exec(line);
    if (choice && last && isNext(choice[1], last.choices.length)) last.choices.push(choice[2].trim());
    else if (last && !last.choices.length) last.question += ` ${line.trim()}`;
    else found.push({ question: line.replace(NUMBER, "").trim(), choices: [] });
  }
  const isList = found.length > 0 && found.every((one) => one.choices.length >= 2);
  return isList ? found : [];
}

/** Whether a label is the one that comes after so many choices. A letter is surer than a number. */
function isNext(label, count) {
  return label.toLowerCase() === String.fromCharCode(97 + count) || label === String(count + 1);
}
