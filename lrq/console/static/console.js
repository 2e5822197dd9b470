// Reads the live part of a page again when the server tells that a site was read. Without this script, pages with a
// live part are loaded again every 10 seconds.
(() => {
  "use strict";
  const live = () => document.querySelector("[data-live]");
  if (!live()) return;
  const SHORTEST = 1900;
  const FALLBACK = 15000;
  const SILENCE = 20000;
  const LOOK = 5000;
  const state = document.getElementById("live-state");
  const say = (words) => { if (state) state.textContent = words; };
  const pause = document.getElementById("pause");
  let events = null;
  let timer = null;
  let last = Date.now();
  let due = null;
  let paused = false;

  const isBusy = () => {
    const chosen = document.getSelection();
    return paused || document.hidden || (chosen && !chosen.isCollapsed);
  };

  // htmx keeps the focus of an element with an id. Others would lose the focus when their part is replaced, and a
  // person at the keyboard would begin again at the top.
  const keyOf = (element) => element.id || element.getAttribute("href") || element.getAttribute("aria-label");
  const alike = (key) => [...live().querySelectorAll("a, button, [tabindex]")].filter((each) => keyOf(each) === key);
  let focused = null;

  const keepFocus = () => {
    const now = document.activeElement;
    const key = live() && live().contains(now) ? keyOf(now) : null;
    focused = key && { key, place: alike(key).indexOf(now) };
  };

  const giveFocus = () => {
    if (!focused || !live() || live().contains(document.activeElement)) return;
    const found = alike(focused.key);
    const again = found[focused.place] || found[0];
    if (again) again.focus({ preventScroll: true });
  };

  const load = () => {
    due = null;
    if (isBusy() || !live()) return;
    last = Date.now();
    htmx.ajax("GET", location.pathname + location.search, {
      source: live(), target: "#live", select: "#live", swap: "outerHTML show:none",
    });
  };

  const soon = () => {
    if (due === null) due = setTimeout(load, Math.max(0, last + SHORTEST - Date.now()));
  };

  const fallBack = () => {
    if (timer === null) timer = setInterval(soon, FALLBACK);
  };

  const close = () => {
    if (worker) worker.port.postMessage(null);
    if (events) events.close();
    if (timer !== null) clearInterval(timer);
    events = timer = null;
  };

  const open = () => {
    close();
    if (document.hidden || paused) return;
    const url = document.body.dataset.events;
    if (worker) {
      worker.port.postMessage(new URL(url, location.href).href);
      return;
    }
    events = new EventSource(url);
    events.addEventListener("change", soon);
    // A refused stream is not tried again: there are too many tabs, or the token has changed.
    events.onerror = () => { if (events && events.readyState === EventSource.CLOSED) fallBack(); };
  };

  // All tabs share one stream where the browser can share; otherwise each visible tab has its own.
  const worker = "SharedWorker" in self ? new SharedWorker(document.body.dataset.worker, { name: "lrq-console" }) : null;
  if (worker) worker.port.onmessage = ({ data }) => { if (data === "change") soon(); else fallBack(); };

  // A hidden tab needs no stream.
  document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else { open(); soon(); } });
  addEventListener("pagehide", close);
  document.body.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (detail.shouldSwap && !detail.serverResponse.includes(" data-live")) {
      // Another page came, such as that which asks for the token: show it, and not an empty place.
      detail.shouldSwap = false;
      location.reload();
      return;
    }
    keepFocus();
  });
  document.body.addEventListener("htmx:afterSwap", () => {
    giveFocus();
    say("Read at " + new Date().toISOString());
  });
  const GONE = "The console does not answer; trying again";
  for (const failure of ["htmx:sendError", "htmx:timeout"]) document.body.addEventListener(failure, () => say(GONE));
  document.body.addEventListener("htmx:responseError", ({ detail }) => say(detail.xhr.status < 500
    ? "The console cannot show this page now; load it again to see why"
    : GONE));
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Go on" : "Pause";
    if (paused) close(); else { open(); soon(); }
  });
  // A console that has gone sends no event, and neither does a site without an answer. So the page asks by itself.
  setInterval(() => { if (Date.now() - last > SILENCE) soon(); }, LOOK);
  open();
})();
