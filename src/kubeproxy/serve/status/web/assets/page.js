"use strict";
/* Keeps the page up to date. It works without this script, which saves reloading it.
 *
 * The server makes all HTML: the script asks for a part of the page, has the browser parse it
 * (which runs nothing), and puts it where the old one was. Rates come as JSON and go into text
 * nodes and the points of lines. So a name can never become anything but text.
 */
(() => {
  const EVERY = 2000;      // milliseconds from one look to the next
  const PATIENCE = 10000;  // after which the daemon is said not to answer
  const KEPT = 60;         // looks that charts show
  const TABLE_TURNS = 10;  // looks after which the table is asked for though no sync was seen
  const SVG = "http://www.w3.org/2000/svg";

  const rates = [];        // the latest looks at the rates, each by the name of the service
  const asked = {};        // how often each part was asked for: an answer that comes late is old
  let looked = 0;
  let turn = 0;
  let timer = 0;
  let typing = 0;

  const byId = (id) => document.getElementById(id);

  const load = (place, type) => new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("GET", place);
    request.responseType = type;
    request.timeout = PATIENCE;
    request.setRequestHeader("Accept", type === "json" ? "application/json" : "text/html");
    request.onload = () => (request.response ? resolve(request.response) : reject());
    request.onerror = request.ontimeout = () => reject();
    request.send();
  });

  /* --- parts of the page ------------------------------------------------------------------- */

  const isSelected = (element) => {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && selection.containsNode(element, true);
  };

  const put = (old, fresh) => {
    for (const open of old.querySelectorAll("details[open][id]")) {
      const same = fresh.querySelector(`#${open.id}`);
      if (same) same.open = true;
    }
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    old.replaceWith(document.adoptNode(fresh));
    if (focused) {
      const alike = [...fresh.querySelectorAll(focused.tagName)];
      alike.find((each) => each.isEqualNode(focused))?.focus({ preventScroll: true });
    }
  };

  /* Ask for a part again; `wanted` when the user waits for it, even if text is selected. */
  const refresh = async (part, query, wanted) => {
    const number = asked[part] = (asked[part] || 0) + 1;
    const page = await load(`${location.pathname}?${new URLSearchParams({ ...query, part })}`, "document");
    if (number !== asked[part]) return;
    for (const old of document.querySelectorAll(`[data-refresh=${part}]`)) {
      // What is gone has no such part: the page then says so in another.
      const fresh = page.getElementById(old.id) || page.querySelector("main > section");
      if (fresh && (wanted || !isSelected(old))) put(old, fresh);
    }
    draw();
  };

  const values = (form) => Object.fromEntries(new FormData(form));

  /* --- charts ------------------------------------------------------------------------------ */

  const shape = (svg, name, index, attributes) => {
    const found = svg.children[index] || svg.appendChild(document.createElementNS(SVG, name));
    for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
    return found;
  };

  const points = (numbers, box, top) => numbers.map((number, index) => {
    const x = box.right - (numbers.length - 1 - index) * (box.right - box.left) / (KEPT - 1);
    return `${x.toFixed(1)},${(box.bottom - number / top * (box.bottom - box.top)).toFixed(1)}`;
  });

  const total = (look) => Object.values(look).reduce((sum, each) => sum + each, 0);
  const series = (name) => rates.map((look) => (name === "*" ? total(look) : look[name] || 0));
  const words = (rate) => (rate >= 100 || rate === 0
    ? Math.round(rate).toLocaleString("en") : rate.toFixed(1));

  const spark = (svg) => {
    const numbers = series(svg.dataset.spark);
    const box = { left: 1, right: 79, top: 2, bottom: 18 };
    const line = points(numbers, box, Math.max(...numbers) || 1);
    shape(svg, "polyline", 0, { points: line.join(" ") });
  };

  const chart = (svg) => {
    const numbers = series(svg.dataset.chart);
    const box = { left: 34, right: 326, top: 10, bottom: 74 };
    const top = Math.max(...numbers) || 1;
    const line = points(numbers, box, top);
    const area = [`${line[0].split(",")[0]},${box.bottom}`, ...line, `${box.right},${box.bottom}`];
    shape(svg, "line", 0, { class: "grid", x1: box.left, x2: box.right, y1: box.top, y2: box.top });
    shape(svg, "line", 1, { class: "grid", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom });
    shape(svg, "polygon", 2, { points: area.join(" ") });
    shape(svg, "polyline", 3, { points: line.join(" ") });
    const most = top.toLocaleString("en", { notation: "compact" });
    shape(svg, "text", 4, { x: box.left - 6, y: box.top + 4 }).textContent = most;
    shape(svg, "text", 5, { x: box.left - 6, y: box.bottom + 4 }).textContent = "0";
    shape(svg, "text", 6, { x: box.left, y: 88, class: "from" }).textContent = "2 min ago";
    shape(svg, "text", 7, { x: box.right, y: 88 }).textContent = "now";
    svg.setAttribute("aria-label", `Connections per second: now ${words(numbers.at(-1))}, at most ${words(top)}`);
  };

  const draw = () => {
    if (!rates.length) return;
    for (const each of document.querySelectorAll("[data-rate]")) {
      each.textContent = words(series(each.dataset.rate).at(-1));
    }
    document.querySelectorAll("[data-spark]").forEach(spark);
    document.querySelectorAll("[data-chart]").forEach(chart);
  };

  const look = async () => {
    if (!document.querySelector("[data-rate]")) return;
    const answer = await load("/status/rates", "json");
    if (!answer.seconds) return;
    const now = performance.now();
    if (now - looked > 5 * EVERY) rates.length = 0;
    looked = now;
    rates.push(answer.services);
    rates.splice(0, rates.length - KEPT);
    draw();
  };

  /* --- again and again, while the page is visible ------------------------------------------- */

  const syncs = () => byId("state")?.dataset.syncs;

  const again = async () => {
    turn += 1;
    await look();
    if (turn % 2) return;
    const before = syncs();
    for (const part of ["state", "service"]) {
      if (document.querySelector(`[data-refresh=${part}]`)) await refresh(part, {}, false);
    }
    if (byId("found") && (syncs() !== before || turn % TABLE_TURNS === 0)) {
      const { offset } = byId("found").dataset;
      await refresh("services", { ...values(byId("search")), offset }, false);
    }
  };

  const trouble = document.querySelector(".silent");
  let since = "";

  const attempt = async (work) => {
    try {
      await work();
      since = "";
      trouble.hidden = true;
    } catch {
      since ||= new Date().toISOString().slice(11, 19);
      trouble.textContent = `The daemon has not answered since ${since} UTC: what is shown is from before. Still asking.`;
      trouble.hidden = false;
    }
  };

  const loop = async () => {
    clearTimeout(timer);
    if (document.hidden) return;
    await attempt(again);
    clearTimeout(timer);
    timer = setTimeout(loop, EVERY);
  };

  document.addEventListener("visibilitychange", loop);

  /* --- the forms ----------------------------------------------------------------------------- */

  /* Another search begins with its first page. */
  const remember = (query, others) => {
    const all = new URLSearchParams(location.search);
    for (const name of others) all.delete(name);
    for (const [name, value] of Object.entries(query)) all.set(name, value);
    history.replaceState(null, "", `?${all}`);
  };

  const submitted = (id, part) => async (event) => {
    event.preventDefault();
    clearTimeout(typing);
    const query = values(byId(id));
    remember(query, id === "search" ? ["problems", "offset"] : []);
    await attempt(() => refresh(part, query, true));
  };

  byId("search")?.addEventListener("submit", submitted("search", "services"));
  byId("search")?.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => byId("search").requestSubmit(), 200);
  });
  if (byId("answer")) byId("ask").addEventListener("submit", submitted("ask", "answer"));

  document.addEventListener("keydown", (event) => {
    const typed = event.target.closest("input");
    if (event.key !== "/" || typed || event.ctrlKey || event.metaKey || !byId("q")) return;
    event.preventDefault();
    byId("q").focus();
  });

  loop();
})();
