// What pages do on top of what the server made: each works without this file.
"use strict";
(() => {
  const ROWS = 10; // tables with more of them get a filter
  const QUIET_MS = 200; // after the last key before a form is sent
  const TOLD_MS = 2000;
  const HINT = "Point here, or use the arrow keys, for values.";
  const ZOOM_HINT = HINT.replace(".", ";") + " drag, or Shift and arrows, to see a part larger.";
  const LINKED_HINT = "Point here for values.";

  function made(name, properties, ...children) {
    const one = Object.assign(document.createElement(name), properties);
    one.append(...children);
    return one;
  }

  const status = made("p", { className: "hidden" });
  status.setAttribute("role", "status");
  document.body.append(status);

  // Lines to paste: a button that copies.

  async function copied(text) {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    // Browsers give pages without TLS no clipboard, but for what is selected.
    const field = made("textarea", { value: text });
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    if (!done) throw new Error("not copied");
  }

  function copyButton(line) {
    const text = line.textContent.trim();
    const button = made("button", { type: "button", className: "tool copy" }, "Copy");
    button.setAttribute("aria-label", `Copy ${text}`);
    button.addEventListener("click", async () => {
      const word = await copied(text).then(() => "Copied", () => "Not copied");
      button.textContent = word;
      status.textContent = `${word}: ${text}`;
      setTimeout(() => { button.textContent = "Copy"; }, TOLD_MS);
      button.focus();
    });
    line.after(" ", button);
  }

  // Long tables: a filter, which the address keeps.

  function kept(name, value) {
    const address = new URL(location);
    if (value) address.searchParams.set(name, value);
    else address.searchParams.delete(name);
    history.replaceState(null, "", address);
  }

  function filter(table) {
    const rows = [...table.tBodies[0].rows];
    const name = `filter-${table.className.replace("of-", "")}`;
    if (rows.length <= ROWS || table.closest("[data-found]")) return;
    const field = made("input", { type: "search", id: name, autocomplete: "off" });
    const number = made("span", { className: "soft" });
    number.setAttribute("role", "status");
    const label = made("label", { htmlFor: name }, "Filter rows ");
    const hide = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every(word => text.includes(word));
      }
      const shown = rows.filter(row => !row.hidden).length;
      number.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
    };
    field.addEventListener("input", () => { hide(); kept(name, field.value); });
    field.value = new URL(location).searchParams.get(name) ?? "";
    table.closest(".scroll").before(made("div", { className: "tool filter" }, label, field, number));
    hide();
  }

  // Figures: the values at the nearest place, by pointer, finger or arrow keys.

  function readable(svg) {
    const spots = [...svg.querySelectorAll(".spot")];
    if (!spots.length) return;
    const [xs, ys] = ["cx", "cy"].map(name => spots.map(one => one[name].baseVal.value));
    const zooms = svg.dataset.zoom && spots.length > 2;
    const hint = svg.querySelector("a") ? LINKED_HINT : zooms ? ZOOM_HINT : HINT;
    const text = made("p", { className: "tool values" }, hint);
    text.setAttribute("role", "status");
    text.classList.add("soft");
    svg.after(text);
    let present = -1, first = -1; // the place that is read, and where a part to see larger begins
    const inPart = i => first >= 0 && i >= Math.min(first, present) && i <= Math.max(first, present);
    const show = number => {
      present = number;
      spots.forEach((one, i) => one.classList.toggle("on", i === present || inPart(i)));
      text.textContent = spots[present]?.querySelector("title").textContent ?? hint;
      text.classList.toggle("soft", !spots[present]);
    };
    const nearest = event => {
      const at = new DOMPoint(event.clientX, event.clientY)
        .matrixTransform(svg.getScreenCTM().inverse());
      // Across the figure first: up and down tells apart what stands at one place.
      const far = xs.map((x, i) => Math.abs(x - at.x) + Math.abs(ys[i] - at.y) / 1000);
      show(far.indexOf(Math.min(...far)));
    };
    const zoom = () => {
      const [low, high] = [first, present].sort((a, b) => a - b).map(i => spots[i]?.dataset.key);
      const part = low && high && first !== present;
      first = -1;
      if (!part) return show(present);
      const address = new URL(location);
      address.searchParams.set(svg.dataset.zoom, `${low}..${high}`);
      address.hash = svg.getAttribute("aria-labelledby");
      location.assign(address);
    };
    svg.addEventListener("pointermove", nearest);
    svg.addEventListener("pointerdown", event => {
      nearest(event);
      // A finger that moves reads values.
      if (!zooms || event.button || event.pointerType === "touch") return;
      first = present;
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointerup", () => { if (first >= 0) zoom(); });
    svg.addEventListener("pointercancel", () => { first = -1; show(-1); });
    svg.addEventListener("pointerleave", event => { if (event.pointerType === "mouse") show(-1); });
    if (svg.querySelector("a")) {
      svg.addEventListener("focusin", event => {
        const box = event.target.getBoundingClientRect();
        nearest({ clientX: box.x + box.width / 2, clientY: box.y });
      });
      return;
    }
    svg.tabIndex = 0;
    const steps = {
      ArrowRight: () => Math.min(present + 1, spots.length - 1),
      ArrowLeft: () => Math.max(present - 1, 0),
      Home: () => 0,
      End: () => spots.length - 1,
      Escape: () => -1,
    };
    svg.addEventListener("keydown", event => {
      if (!steps[event.key]) return;
      event.preventDefault();
      if (zooms && event.shiftKey && first < 0) first = Math.max(present, 0);
      if (!event.shiftKey) first = -1;
      show(steps[event.key]());
    });
    svg.addEventListener("keyup", event => { if (event.key === "Shift" && first >= 0) zoom(); });
    svg.addEventListener("blur", () => { first = -1; show(-1); });
  }

  function prepare(root) {
    root.querySelectorAll("code.paste").forEach(copyButton);
    root.querySelectorAll("table").forEach(filter);
    root.querySelectorAll("figure svg").forEach(readable);
  }

  // Parts of a page that are fetched anew.

  async function fetched(address, signal) {
    const answer = await fetch(address, { signal });
    if (!answer.ok) throw new Error(answer.statusText);
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  }

  function replaced(old, page) {
    const fresh = page.getElementById(old.id);
    if (!fresh) throw new Error("another page"); // of a proxy that asks for a password
    const places = [...old.querySelectorAll(".scroll")].map(one => one.scrollLeft);
    const part = document.adoptNode(fresh);
    old.replaceWith(part);
    prepare(part);
    part.querySelectorAll(".scroll").forEach((one, i) => { one.scrollLeft = places[i] ?? 0; });
    return part;
  }

  // Parts that are renewed while somebody looks at the page.

  function renewed() {
    const parts = () => [...document.querySelectorAll("[data-every]")];
    if (!parts().length) return;
    const every_ms = 1000 * parts()[0].dataset.every;
    let paused = new URL(location).searchParams.get("updates") === "no", last_ms = Date.now();
    const button = made("button", { type: "button" });
    const text = made("span", {});
    const say = () => {
      text.textContent = paused ? "Not updated" : `Updated every ${every_ms / 1000} s`;
      button.textContent = paused ? "Update" : "Pause";
    };
    const inUse = part => {
      const chosen = getSelection();
      return part.contains(document.activeElement)
        || (!chosen.isCollapsed && chosen.containsNode(part, true));
    };
    const renew = async () => {
      if (!parts().length) { // what was old is new
        clearInterval(timer);
        text.parentNode.remove();
        return;
      }
      if (paused || document.hidden || Date.now() - last_ms < every_ms / 2) return;
      last_ms = Date.now();
      try {
        const page = await fetched(location.href);
        parts().filter(part => !inUse(part)).forEach(part => replaced(part, page));
        say();
      } catch {
        text.textContent = "The server does not answer: what is shown is old";
      }
    };
    button.addEventListener("click", () => {
      paused = !paused;
      kept("updates", paused ? "no" : "");
      last_ms = 0;
      say();
      renew();
    });
    say();
    const timer = setInterval(renew, every_ms);
    document.addEventListener("visibilitychange", renew);
    document.querySelector("main").prepend(made("p", { className: "tool updates" }, text, " ", button));
  }

  // Counts: a slider beside the number.

  function slider(number) {
    const one = made("input", { type: "range", min: number.min, max: number.max });
    one.setAttribute("aria-label", number.labels[0].textContent);
    one.value = number.value;
    one.addEventListener("input", () => { number.value = one.value; });
    number.addEventListener("input", () => { one.value = number.value; });
    number.closest("div").after(made("div", { className: "tool" }, one));
  }

  // Forms whose answer comes as they are filled in.

  function live(form) {
    let last = new AbortController(), timer = 0;
    const send = async () => {
      last.abort();
      last = new AbortController();
      const address = new URL(form.action);
      for (const [name, value] of new FormData(form)) {
        if (value) address.searchParams.append(name, value);
      }
      try {
        const page = await fetched(address, last.signal);
        const part = replaced(document.getElementById(form.dataset.live), page);
        history.replaceState(null, "", address);
        status.textContent = part.querySelector("[role=status]")?.textContent ?? "";
        form.querySelectorAll("input[max]").forEach(one => { one.max = part.dataset.most; });
      } catch {
        // The button of the form still works, and says what is wrong.
      }
    };
    form.addEventListener("input", () => {
      clearTimeout(timer);
      if (form.checkValidity()) timer = setTimeout(send, QUIET_MS);
    });
  }

  prepare(document);
  document.querySelectorAll("input.slides").forEach(slider);
  renewed();
  document.querySelectorAll("form[data-live]").forEach(live);
})();
