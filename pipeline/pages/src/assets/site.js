"use strict";

// Selects the rows of a list on a page that is a file: by the step and the problem of the address, and by a text.

function setUpSelection() {
  const list = document.getElementById("rollout-list");
  const field = document.getElementById("select-rows");
  const note = document.getElementById("selected-rows");
  if (!list || !field || !note) return;
  const rows = [...list.querySelectorAll("tbody tr")];
  const wanted = new URLSearchParams(location.search);
  const words = ["step", "problem"].filter((name) => wanted.has(name)).map((name) => `${name} ${wanted.get(name)}`);

  function isSelected(row, text) {
    return (!wanted.has("step") || row.dataset.step === wanted.get("step"))
      && (!wanted.has("problem") || row.dataset.problem === wanted.get("problem"))
      && row.textContent.toLowerCase().includes(text);
  }
  function select() {
    const text = field.value.toLowerCase();
    let shown = 0;
    for (const row of rows) {
      row.hidden = !isSelected(row, text);
      if (!row.hidden) shown += 1;
    }
    const of = words.length > 0 ? ` of ${words.join(", ")}` : "";
    note.textContent = `${shown} of ${rows.length} rows shown${of}.`;
    if (shown === 0 && text === "" && wanted.has("step")) offerNearestStep();
  }
  // A point of a curve leads to its step, of which the copy may have no rollout.
  function offerNearestStep() {
    const step = Number(wanted.get("step"));
    const steps = rows.filter((row) => row.dataset.step !== undefined).map((row) => Number(row.dataset.step));
    if (steps.length === 0 || Number.isNaN(step)) return;
    const nearest = steps.reduce((best, other) => (Math.abs(other - step) < Math.abs(best - step) ? other : best));
    if (nearest === step) return;
    const link = document.createElement("a");
    link.href = `?step=${nearest}`;
    link.textContent = `step ${nearest}`;
    note.append(" Nearest step with rollouts: ", link, ".");
  }
  document.getElementById("row-selection").hidden = false;
  field.addEventListener("input", select);
  select();
}

setUpSelection();
