// Kiqbridge's pages work without this file. It adds: live refresh, keys, select all, zone of times, colours.
"use strict";
(() => {
  const body = document.body;
  const path = (body.dataset.base || "") + "/";
  const keep = (name, value) => {
    const secure = location.protocol === "https:" ? "; Secure" : "";
    document.cookie = `${name}=${encodeURIComponent(value)}; Path=${path}; Max-Age=31536000; SameSite=Lax${secure}`;
  };
  const kept = (name) => {
    const found = document.cookie.split("; ").find((each) => each.startsWith(name + "="));
    return found ? decodeURIComponent(found.slice(name.length + 1)) : "";
  };
  const button = (id, act) => {
    const found = document.getElementById(id);
    if (found) {
      found.hidden = false;
      found.addEventListener("click", act);
    }
    return found;
  };

  // Times in the viewer's zone: the server renders them; a cookie carries the zone's name.
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const shown = document.getElementById("zone-name");
  const zone = button("zone", () => {
    keep("kiqbridge_zone", shown.textContent === "UTC" ? own : "UTC");
    location.reload();
  });
  if (zone) {
    zone.textContent = shown.textContent === "UTC" ? `show in ${own}` : "show in UTC";
    zone.hidden = own === "UTC" && shown.textContent === "UTC";
  }

  // Colours: the system's, or the viewer's own choice.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  const theme = button("theme", () => {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    keep("kiqbridge_theme", next);
    label();
  });
  const label = () => {
    if (theme) theme.textContent = isDark() ? "Light colours" : "Dark colours";
  };
  label();

  // A checkbox with data-all="NAME" chooses all of that name in its form.
  document.addEventListener("change", (event) => {
    const all = event.target.dataset && event.target.dataset.all;
    if (!all || !event.target.form) return;
    for (const each of event.target.form.querySelectorAll(`input[type=checkbox][name="${CSS.escape(all)}"]`)) {
      each.checked = event.target.checked;
    }
  });
  const reveal = () => {
    for (const each of document.querySelectorAll("[data-script]")) each.hidden = false;
  };
  reveal();

  // Keys: / searches, j and k walk the rows, x chooses one, g and a letter opens a page, ? shows all of them.
  const help = document.getElementById("help");
  const search = document.querySelector("[data-search]");
  button("keys", () => help.showModal());
  let waits = false;
  const walk = (step) => {
    const rows = [...document.querySelectorAll("main tbody tr")].filter((row) => row.querySelector("a"));
    const here = rows.indexOf(document.activeElement.closest("tr"));
    const next = rows[here < 0 ? 0 : Math.min(Math.max(here + step, 0), rows.length - 1)];
    if (next) next.querySelector("th a, td a").focus();
  };
  document.addEventListener("keydown", (event) => {
    const inField = event.target.closest("input:not([type=checkbox]), select, textarea, dialog");
    if (event.ctrlKey || event.metaKey || event.altKey || inField) return;
    const follows = waits;
    waits = event.key === "g";
    const page = follows && help.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    const chosen = document.activeElement.closest("tr")?.querySelector("input[type=checkbox]");
    if (page) page.click();
    else if (event.key === "/") search.focus();
    else if (event.key === "?") help.showModal();
    else if (event.key === "j" || event.key === "k") walk(event.key === "j" ? 1 : -1);
    else if (event.key === "x" && chosen) chosen.click();
    else return;
    event.preventDefault();
  });

  // Live: a stream sends the lines of this page that have changed; its <main> takes the place of this one.
  const seconds = Number(body.dataset.refresh) || 0;
  if (!seconds) return;
  let live = kept("kiqbridge_live") ? kept("kiqbridge_live") === "on" : !matchMedia("(prefers-reduced-motion: reduce)").matches;
  let source = null;
  let lines = [];
  let isNew = false;
  const toggle = button("live", () => {
    live = !live;
    keep("kiqbridge_live", live ? "on" : "off");
    plan();
  });
  const say = (problem) => {
    if (!toggle) return;
    toggle.setAttribute("aria-pressed", String(live));
    toggle.textContent = !live ? "Refresh is paused: go on" : problem ? `${problem}: pause the refresh` : "Live: pause the refresh";
  };
  const main = () => document.getElementById("main");
  const isBusy = () => {
    const focused = document.activeElement;
    const inForm = focused && main().contains(focused) && focused.closest("form, details, a, button, summary");
    const chosen = main().querySelector("input[type=checkbox]:checked:not([data-keep])");
    const selection = getSelection();
    return document.hidden || inForm || chosen || (selection && !selection.isCollapsed);
  };
  const show = () => {
    if (!isNew || !live || isBusy()) return;
    isNew = false;
    const page = new DOMParser().parseFromString(lines.join("\n"), "text/html");
    const next = page.getElementById("main");
    if (!next) return;
    const notice = main().querySelector("[data-notice]");
    if (notice) notice.remove();
    const opened = new Set([...main().querySelectorAll("details[open][id]")].map((each) => each.id));
    for (const each of next.querySelectorAll("details[id]")) each.open = each.open || opened.has(each.id);
    for (const each of next.querySelectorAll("[data-notice]")) each.remove();
    if (next.innerHTML !== main().innerHTML) main().replaceChildren(...next.childNodes);
    const fetched = page.getElementById("fetched");
    if (fetched) document.getElementById("fetched").replaceChildren(...fetched.childNodes);
    reveal();
  };
  const plan = () => {
    say();
    if (source && (!live || document.hidden)) {
      source.close();
      source = null;
    }
    if (source || !live || document.hidden) return;
    const here = "/" + location.pathname.slice(path.length) + location.search;
    source = new EventSource(`${path}live?every=${seconds}&page=${encodeURIComponent(here)}`);
    source.onopen = () => { lines = []; };
    source.onmessage = (event) => {
      for (const [place, gone, come] of JSON.parse(event.data)) lines.splice(place, gone, ...come);
      isNew = true;
      say();
      show();
    };
    source.addEventListener("reload", () => location.reload());
    source.onerror = () => {
      say("No answer");
      if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself
      source = null;
      setTimeout(plan, 15000);
    };
  };
  document.addEventListener("visibilitychange", plan);
  setInterval(show, 1000);
  setTimeout(plan, seconds * 1000);
  say();
})();
