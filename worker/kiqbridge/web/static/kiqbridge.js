// Kiqbridge's pages work without this file. It adds: live refresh, select all, zone of times, colours.
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

  // Live: the same address is fetched again, and its <main> takes the place of this one.
  const seconds = Number(body.dataset.refresh) || 0;
  if (!seconds) return;
  let live = kept("kiqbridge_live") ? kept("kiqbridge_live") === "on" : !matchMedia("(prefers-reduced-motion: reduce)").matches;
  let waits = 0;
  const toggle = button("live", () => {
    live = !live;
    keep("kiqbridge_live", live ? "on" : "off");
    say();
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
  const refresh = async () => {
    if (!live || isBusy()) return plan();
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", redirect: "error", signal: AbortSignal.timeout(10000) });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.getElementById("main");
      if (next && live && !isBusy()) {
        const notice = main().querySelector("[data-notice]");
        if (notice) notice.remove();
        const opened = new Set([...main().querySelectorAll("details[open][id]")].map((each) => each.id));
        for (const each of next.querySelectorAll("details[id]")) each.open = each.open || opened.has(each.id);
        for (const each of next.querySelectorAll("[data-notice]")) each.remove();
        if (next.innerHTML !== main().innerHTML) main().replaceChildren(...next.childNodes);
        const fetched = page.getElementById("fetched");
        if (fetched) document.getElementById("fetched").replaceChildren(...fetched.childNodes);
        reveal();
      }
      waits = 0;
      say();
    } catch {
      waits = Math.min(waits + 1, 4);
      say("No answer");
    }
    plan();
  };
  let timer = 0;
  const plan = () => {
    clearTimeout(timer);
    // Not all viewers at the same moment; and less often while the server does not answer.
    if (live) timer = setTimeout(refresh, (seconds + Math.random()) * 1000 * 2 ** waits);
  };
  document.addEventListener("visibilitychange", () => { if (!document.hidden) plan(); });
  say();
  plan();
})();
