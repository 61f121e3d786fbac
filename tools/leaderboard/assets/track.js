/* A track's page: curves of all entries, and the viewer. Runs are loaded as scripts, because browsers allow that for local files. */
"use strict";
window.gpusched = window.gpusched || {};
window.gpusched.data = {};
document.addEventListener("DOMContentLoaded", () => {
  const gpusched = window.gpusched;
  const page = JSON.parse(document.getElementById("page").textContent);
  const seedSelect = document.querySelector('[data-part="seed"]');
  const loading = {};
  const MOST_LINES = 8;

  /* Return what data/NAME.js puts into gpusched.data. Names come from the page's own lists, never from the URL. */
  function load(name) {
    loading[name] = loading[name] || new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = `data/${name}.js`;
      script.onload = () => resolve(gpusched.data[name]);
      script.onerror = () => { delete loading[name]; reject(new Error(`${script.src} is missing`)); };
      document.head.append(script);
    });
    return loading[name];
  }

  /* Initially the best lines are visible; entries of users come before baselines. */
  const byRank = page.entries.filter((entry) => !entry.baseline).concat(page.entries.filter((entry) => entry.baseline));
  const first = new Set(byRank.slice(0, MOST_LINES));
  const labelled = (lines) => page.entries.map((entry) => Object.assign(
    { label: entry.label, hidden: !first.has(entry) }, lines[entry.key]));
  const showLines = () => load(`${page.track}/${seedSelect.value}/lines`).then(
    (lines) => gpusched.overTime(document.getElementById("over-time"), labelled(lines)));

  const labels = new Map(page.entries.map((entry) => [entry.key, entry.label]));
  const loadRun = (key) => load(`${page.track}/${seedSelect.value}/${key}`).then(
    (run) => Object.assign({}, run, { label: labels.get(key) }));

  load(`${page.track}/distributions`).then(
    (lines) => gpusched.distributions(document.getElementById("distributions"), labelled(lines)));

  const asked = new URLSearchParams(window.location.hash.slice(1));
  const known = (key, other) => (page.entries.some((entry) => entry.key === key) ? key : other);
  if (page.seeds.includes(Number(asked.get("seed")))) seedSelect.value = asked.get("seed");
  const best = byRank[0];
  const rival = page.entries.find((entry) => entry !== best);
  const second = rival ? rival.key : "";
  const start = { left: known(asked.get("left"), best.key), right: asked.has("left") ? known(asked.get("right"), "") : second };
  const viewer = gpusched.viewer(
    document.getElementById("viewer"), loadRun, start);
  showLines();
  seedSelect.addEventListener("change", () => { showLines(); viewer.pick(); });
});
