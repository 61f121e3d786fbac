/* A report is one file, which includes its data. */
"use strict";
document.addEventListener("DOMContentLoaded", async () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const gpusched = window.gpusched;
  try {
    await gpusched.library;
  } catch (error) {
    document.querySelector(".failed").textContent = `This page needs a browser of 2023 or later to draw (${error}).`;
    return;
  }
  gpusched.distributions(document.getElementById("distributions"), data.lines);
  gpusched.overTime(document.getElementById("over-time"), data.lines);
  document.querySelectorAll("[data-tenants]").forEach((element) => {
    gpusched.tenantShares(element, data.lines[Number(element.dataset.tenants)]);
  });
  const load = (key) => Promise.resolve(data.runs[Number(key)]);
  gpusched.viewer(document.getElementById("viewer"), load, { left: "0", right: data.runs.length > 1 ? "1" : "" });
});
