// Light, dark, or as the system has it. Loaded in the head and not as a module, so that no page flashes in the wrong one.
"use strict";

(() => {
  const KEY = "slotline.theme";
  const CHOICES = ["system", "light", "dark"];
  const SIGNS = { system: "◐", light: "☀", dark: "☾" };

  /** What was chosen before; a browser that keeps nothing for this page is as the system has it. */
  function chosen() {
    try {
      const kept = localStorage.getItem(KEY);
      return CHOICES.includes(kept) ? kept : "system";
    } catch {
      return "system";
    }
  }

  function keep(choice) {
    try {
      localStorage.setItem(KEY, choice);
    } catch {
      // it holds until the page is left
    }
  }

  function apply(choice) {
    if (choice === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice;
  }

  let choice = chosen();
  apply(choice);

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("[data-theme-toggle]");
    if (!button) return;
    const label = () => {
      button.textContent = SIGNS[choice];
      button.setAttribute("aria-label", `Colours: ${choice === "system" ? "as the system" : choice}`);
      button.title = button.getAttribute("aria-label");
    };
    button.addEventListener("click", () => {
      choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
      keep(choice);
      apply(choice);
      label();
      document.dispatchEvent(new CustomEvent("themechange"));
    });
    label();
  });
})();
