/* Sortable tables: a button in each heading. Numbers sort by data-value, texts by their content; empty cells come last. */
"use strict";
window.gpusched = window.gpusched || {};
(function (gpusched) {
  function valueOf(row, column, numeric) {
    const cell = row.cells[column];
    if (!numeric) return cell.textContent.trim().toLowerCase();
    const value = parseFloat(cell.dataset.value);
    return Number.isNaN(value) ? null : value;
  }

  function sort(table, heading) {
    const column = heading.cellIndex;
    const numeric = heading.dataset.kind === "number";
    const before = heading.getAttribute("aria-sort");
    const first = heading.dataset.first || "ascending";
    const other = first === "ascending" ? "descending" : "ascending";
    const direction = before === first ? other : first;
    for (const one of heading.parentElement.cells) one.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    const body = table.tBodies[0];
    const rows = Array.from(body.rows).filter((row) => !row.classList.contains("bound"));
    const keyed = rows.map((row, place) => ({ row, place, key: valueOf(row, column, numeric) }));
    keyed.sort((a, b) => {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.place - b.place;
      const order = numeric ? a.key - b.key : a.key.localeCompare(b.key, "en", { numeric: true });
      return sign * order || a.place - b.place;
    });
    const fixed = Array.from(body.rows).filter((row) => row.classList.contains("bound"));
    body.append(...keyed.map((one) => one.row), ...fixed);
  }

  gpusched.sortable = function (root) {
    for (const table of root.querySelectorAll("table.sortable")) {
      for (const heading of table.tHead.rows[0].cells) {
        const button = heading.querySelector("button");
        if (button) button.addEventListener("click", () => sort(table, heading));
      }
    }
  };
  document.addEventListener("DOMContentLoaded", () => gpusched.sortable(document));
})(window.gpusched);
