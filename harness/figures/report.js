// Sort tables by their heads, filter their rows, unfold what a link names, and enlarge figures. The page is complete without this script.
"use strict";

const NUMBER = /^[+-]?\d[\d,]*(\.\d+)?/;

function valueOf(cell) {
  // The first line of a cell is its value; numbers are written with commas and a true minus.
  const text = cell.firstChild ? cell.firstChild.textContent.trim() : "";
  const number = text.replace("\u2212", "-").match(NUMBER);
  return number ? Number(number[0].replaceAll(",", "")) : text;
}

function compare(a, b) {
  // Numbers stand before words, so that what was not measured is last.
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true });
}

function sortBy(table, head) {
  const descending = head.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => compare(valueOf(a.cells[head.cellIndex]), valueOf(b.cells[head.cellIndex])));
  table.tBodies[0].append(...(descending ? rows.reverse() : rows));
}

function filterRows(table, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of table.tBodies[0].rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !wanted.every((word) => text.includes(word));
  }
}

for (const table of document.querySelectorAll("table.sortable")) {
  for (const head of table.tHead.rows[0].cells) {
    if (!head.textContent.trim()) continue;
    const button = document.createElement("button");
    button.append(...head.childNodes);
    button.addEventListener("click", () => sortBy(table, head));
    head.append(button);
  }
  if (!table.dataset.filter) continue;
  const label = document.createElement("label");
  const input = document.createElement("input");
  label.className = "filter";
  input.type = "search";
  label.append(`${table.dataset.filter} `, input);
  input.addEventListener("input", () => filterRows(table, input.value));
  table.parentElement.before(label);
}

function unfold() {
  // A link to something folded unfolds it.
  const place = document.getElementById(location.hash.slice(1));
  const folded = place && place.closest("details");
  if (!folded) return;
  folded.open = true;
  place.scrollIntoView();
}

addEventListener("hashchange", unfold);
unfold();
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
});

const dialog = document.querySelector("dialog");
for (const button of document.querySelectorAll("figure button")) {
  button.addEventListener("click", () => {
    const small = button.querySelector("img");
    const large = dialog.querySelector("img");
    large.src = small.src;
    large.alt = small.alt;
    dialog.showModal();
  });
}
dialog.addEventListener("click", () => dialog.close());
