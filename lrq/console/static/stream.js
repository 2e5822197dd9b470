// A shared worker: one stream of events for all tabs of a browser, which opens only six connections to one host.
"use strict";
const wanting = new Map();
let events = null;

const tell = (word) => { for (const port of wanting.keys()) port.postMessage(word); };

const update = () => {
  if (wanting.size === 0) {
    if (events) events.close();
    events = null;
    return;
  }
  if (events && events.readyState !== EventSource.CLOSED) return;
  events = new EventSource(wanting.values().next().value);
  events.addEventListener("change", () => tell("change"));
  events.onerror = () => { if (events && events.readyState === EventSource.CLOSED) tell("refused"); };
};

self.onconnect = (connected) => {
  const port = connected.ports[0];
  port.onmessage = ({ data }) => {
    if (data) wanting.set(port, data); else wanting.delete(port);
    update();
  };
};
