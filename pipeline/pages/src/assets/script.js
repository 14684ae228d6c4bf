"use strict";

// Switches between light and dark, and keeps the choice in this browser.
function setUpTheme() {
  const button = document.getElementById("theme");
  if (!button) return;
  button.hidden = false;
  button.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* storage is off */ }
  });
}

// Sends a form of filters when a choice in it changes; without this script its button sends it.
function setUpFilters() {
  for (const form of document.querySelectorAll("form.filters")) {
    form.addEventListener("change", (event) => {
      if (event.target instanceof HTMLSelectElement) form.requestSubmit();
    });
    // Empty fields stay out of the address, so that it can be shared.
    form.addEventListener("formdata", (event) => {
      for (const [name, value] of [...event.formData.entries()]) if (value === "") event.formData.delete(name);
    });
  }
}

// Asks before forms with `data-confirm` are sent.
function setUpConfirmations() {
  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !confirm(question)) event.preventDefault();
  });
}

setUpTheme();
setUpFilters();
setUpConfirmations();
