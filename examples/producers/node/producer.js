// A producer in Node without any package: gRPC is HTTP/2 with length-prefixed protobuf messages.
// The protocol is in proto/ingest.proto. Usage: see main() at the end, and README.md.
"use strict";
const crypto = require("node:crypto");
const http2 = require("node:http2");
const fs = require("node:fs");

const REFUSALS = [
  "UNSPECIFIED", "GAP", "UNKNOWN_CLIENT", "NOT_ALLOWED", "INVALID", "TOO_LARGE", "FULL", "NO_FOLLOWER", "NOT_LEADER",
  "TRANSIENT", "TAKEN",
];
const PASSING = new Set(["UNSPECIFIED", "FULL", "NO_FOLLOWER", "NOT_LEADER", "TRANSIENT"]);

// --- protobuf ------------------------------------------------------------------------------------------------------

function varint(value) {
  const bytes = [];
  let rest = BigInt(value);
  do {
    const seven = Number(rest & 127n);
    rest >>= 7n;
    bytes.push(rest ? seven | 128 : seven);
  } while (rest);
  return Buffer.from(bytes);
}

const number = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);

function bytes(field, value) {
  const content = Buffer.from(value);
  return Buffer.concat([varint((field << 3) | 2), varint(content.length), content]);
}

// Other arrays would lose bits: Buffer.from([256]) has one byte.
function checked(what, value) {
  if (typeof value === "string" || (what === "payload" && value instanceof Uint8Array)) return value;
  throw new TypeError(`${what} must be a string${what === "payload" ? " or a Buffer" : ""}, not ${typeof value}`);
}

function encodeMessage(message) {
  const { payload, destinations, itemKey, partitionKey, headers } = message ?? {};
  if (!Array.isArray(destinations)) throw new TypeError("destinations must be an array of site ids: ['tokyo']");
  const parts = [bytes(1, checked("payload", payload))];
  parts.push(...destinations.map((site) => bytes(2, checked("a destination", site))));
  if (itemKey != null) parts.push(bytes(3, checked("itemKey", itemKey)));
  if (partitionKey != null) parts.push(bytes(4, checked("partitionKey", partitionKey)));
  for (const [name, value] of Object.entries(headers ?? {})) {
    parts.push(bytes(5, Buffer.concat([bytes(1, name), bytes(2, checked(`the header ${name}`, value))])));
  }
  return Buffer.concat(parts);
}

// The bytes stay as they are now, so a repeated request is the same one.
function encodeMessages(messages) {
  if (!Array.isArray(messages) || !messages.length) {
    throw new TypeError("messages must be an array: [{ payload: '21.5', destinations: ['tokyo'] }]");
  }
  return Buffer.concat(messages.map((each) => bytes(4, encodeMessage(each))));
}

function encodeRequest({ client, producer, process, first }, sequence, content) {
  const parts = [bytes(1, client), bytes(2, producer), number(3, sequence), number(7, process), number(8, first)];
  return Buffer.concat([...parts, content]);
}

// Returns the fields of a message by number: numbers as BigInt, and all others as Buffer.
function decode(buffer) {
  const fields = {};
  let at = 0;
  const readVarint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      if (at >= buffer.length || shift > 63n) throw new Error("the reply cannot be read");
      const byte = buffer[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < buffer.length) {
    const key = Number(readVarint());
    const kind = key & 7;
    if (kind === 0) {
      fields[key >> 3] = readVarint();
      continue;
    }
    const length = kind === 2 ? Number(readVarint()) : kind === 1 ? 8 : 4;
    if (at + length > buffer.length) throw new Error("the reply cannot be read");
    fields[key >> 3] = buffer.subarray(at, (at += length));
  }
  return fields;
}

const text = (field) => (field === undefined ? "" : field.toString("utf8"));

function decodeReply(buffer) {
  const fields = decode(buffer);
  const reply = { sequence: Number(fields[1] ?? 0n), leader: text(fields[4]), token: text(fields[5]) };
  if (fields[2]) {
    const place = decode(fields[2]);
    reply.position = { branch: text(place[1]), seq: Number(place[2] ?? 0n) };
  }
  if (fields[3]) {
    const refusal = decode(fields[3]);
    reply.refusal = REFUSALS[Number(refusal[1] ?? 0n)] ?? "UNSPECIFIED";
    reply.reason = text(refusal[2]);
    reply.last = Number(refusal[3] ?? 0n);
  }
  return reply;
}

// --- gRPC ----------------------------------------------------------------------------------------------------------

function frame(message) {
  const head = Buffer.alloc(5); // one byte: not compressed; four bytes: the length
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

// One stream: each message that is written has one reply, in order.
class Stream {
  constructor(endpoint, tls) {
    const secure = endpoint.startsWith("tls://");
    const options = secure ? { cert: read(tls.certificate), key: read(tls.key), ca: read(tls.authority) } : {};
    const authority = endpoint.replace(/^t(ls|cp):/, secure ? "https:" : "http:");
    this.waiting = [];
    this.received = Buffer.alloc(0);
    this.failure = null;
    this.isConnected = false;
    const fail = (error) => this.fail(error);
    this.session = http2.connect(authority, options);
    this.session.on("error", fail);
    this.session.on("connect", () => (this.isConnected = true));
    this.call = this.session.request({
      ":method": "POST", ":path": "/lrq.Ingest/Produce", "content-type": "application/grpc", te: "trailers",
    });
    this.call.on("error", fail);
    this.call.on("data", (chunk) => this.take(chunk));
    const status = (headers) => {
      const code = Number(headers["grpc-status"] ?? 0);
      if (code) fail(new Error(decoded(headers["grpc-message"]) || `gRPC status ${code}`));
    };
    this.call.on("response", status);
    this.call.on("trailers", status);
    this.call.on("close", () => fail(new Error("the server has ended the stream")));
  }

  ask(message) {
    return new Promise((resolve, reject) => {
      if (this.failure) return reject(this.failure);
      this.waiting.push({ resolve, reject });
      this.call.write(frame(message));
    });
  }

  take(chunk) {
    this.received = Buffer.concat([this.received, chunk]);
    while (this.received.length >= 5) {
      const end = 5 + this.received.readUInt32BE(1);
      if (this.received.length < end) return;
      const message = this.received.subarray(5, end);
      this.received = this.received.subarray(end);
      try {
        this.waiting.shift()?.resolve(decodeReply(message));
      } catch (error) {
        this.fail(error);
      }
    }
  }

  fail(error) {
    this.failure ??= error;
    for (const each of this.waiting.splice(0)) each.reject(this.failure);
    this.close();
  }

  close() {
    this.call.destroy();
    this.session.destroy();
  }
}

const read = (file) => fs.readFileSync(file);

function decoded(message = "") {
  try {
    return decodeURIComponent(message);
  } catch {
    return message; // not of gRPC: a proxy's
  }
}

// --- the rules of a producer ---------------------------------------------------------------------------------------

// The request is refused for good, and nothing of it is stored.
class RefusedError extends Error {}

// The request may be stored. It is kept, and the next call of `send` repeats it: do not send its messages again.
class OutcomeUnknownError extends Error {}

// Sends one request at a time, in the order of the calls. A request without an answer is repeated with the same number,
// until an answer comes or the time has passed. Other errors than OutcomeUnknownError mean that nothing is stored.
class Producer {
  constructor(endpoints, { client, producer, tls = {} }) {
    Object.assign(this, { endpoints: endpoints.split(",").map((each) => each.trim()), client, producer, tls });
    for (const each of this.endpoints) {
      if (!/^t(cp|ls):\/\/./.test(each)) throw new TypeError(`'${each}' is not tcp://host:port or tls://host:port`);
      if (each.startsWith("tls:")) [tls.certificate, tls.key, tls.authority].forEach((file) => read(file ?? ""));
    }
    checked("client", client);
    checked("producer", producer);
    this.stream = null;
    this.endpoint = null; // of the stream
    this.leader = null; // the endpoint of the server that stores requests, once another server has named it
    this.process = crypto.randomBytes(8).readBigUInt64BE() >> 1n; // the site tells processes of one name apart by it
    this.first = 0; // the first number of this process, once it is known
    this.last = null; // the last number that is known to be stored
    this.doubtful = null; // the content of the request with number last + 1, if it may be stored
    this.turn = Promise.resolve(); // the end of the call before: two calls at once would take one number
    this.isClosed = false;
  }

  lastSequence(timeout = 5000) {
    return this.inTurn(timeout, (deadline) => this.known(deadline));
  }

  async send(messages, timeout = 5000) {
    const content = encodeMessages(messages);
    return this.inTurn(timeout, async (deadline) => {
      await this.known(deadline);
      if (this.doubtful) await this.settled(deadline);
      return this.numbered(content, deadline, false);
    });
  }

  inTurn(timeout, act) {
    if (typeof timeout !== "number" || !(timeout >= 0)) throw new TypeError("timeout must be a number of milliseconds");
    const deadline = Date.now() + timeout;
    const mine = this.turn.then(() => act(deadline));
    this.turn = mine.catch(() => {});
    return mine;
  }

  async known(deadline) {
    if (this.last === null) await this.repeat(0, Buffer.alloc(0), deadline, false);
    return this.last;
  }

  async settled(deadline) {
    try {
      await this.numbered(this.doubtful, deadline, true);
    } catch (error) {
      const isKept = error instanceof OutcomeUnknownError;
      const earlier = `${isKept ? "" : "an earlier request is not stored: "}${error.message}`;
      throw new Error(`nothing of this call was sent, send it again; ${earlier}`);
    }
  }

  async numbered(content, deadline, isDoubtful) {
    try {
      const reply = await this.repeat(this.last + 1, content, deadline, isDoubtful);
      this.last += 1;
      this.doubtful = null;
      return reply;
    } catch (error) {
      this.doubtful = error instanceof OutcomeUnknownError ? content : null;
      throw error;
    }
  }

  // `isDoubtful`: an earlier attempt may have stored the request, though its answer is missing.
  async repeat(sequence, content, deadline, isDoubtful) {
    const request = encodeRequest(this, sequence, content);
    let reason = "the time had passed before";
    for (let attempt = 0; ; attempt++) {
      if (this.isClosed) reason = "the producer is closed";
      if (Date.now() >= deadline || this.isClosed) throw unanswered(sequence, reason, isDoubtful);
      try {
        this.open(attempt);
        const reply = await within(this.stream.ask(request), deadline);
        if (!reply.refusal) {
          if (sequence === 0) this.last = reply.sequence;
          if (!this.first) this.first = this.last + 1;
          return reply;
        }
        this.leave();
        this.leader = this.followed(reply.leader);
        reason = reply.reason;
        if (!PASSING.has(reply.refusal)) throw new RefusedError(`${reply.refusal}: ${reason}`);
      } catch (error) {
        if (error instanceof RefusedError && !isDoubtful) throw error;
        if (error instanceof RefusedError) return this.refusedInDoubt(sequence, deadline, error);
        isDoubtful ||= Boolean(sequence && this.stream?.isConnected);
        this.leave();
        this.leader = null;
        reason = error.message;
      }
      const pause = Math.max(0, Math.min(50 * 2 ** attempt, 1000, deadline - Date.now()));
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  // An earlier attempt may have stored the refused request, so the last number decides.
  async refusedInDoubt(sequence, deadline, refusal) {
    const before = this.last;
    try {
      await this.repeat(0, Buffer.alloc(0), deadline, false);
    } catch (error) {
      throw unanswered(sequence, `${refusal.message}; ${error.message}`, !refusal.message.startsWith("TAKEN"));
    }
    const last = this.last;
    this.last = before;
    if (last < sequence) throw refusal;
    return { sequence, leader: "", token: "" };
  }

  open(attempt) {
    if (this.stream) return;
    this.endpoint = this.leader ?? this.endpoints[attempt % this.endpoints.length];
    this.stream = new Stream(this.endpoint, this.tls);
  }

  // Returns the endpoint that a refusal names, if it is another one of the same kind: no server leads away from TLS.
  followed(leader) {
    const isUsable = /^t(cp|ls):\/\/[^/]+:\d+$/.test(leader) && leader.length <= 512 && leader !== this.endpoint;
    return isUsable && this.endpoints.some((each) => each.slice(0, 6) === leader.slice(0, 6)) ? leader : null;
  }

  leave() {
    this.stream?.close();
    this.stream = null;
  }

  close() {
    this.isClosed = true;
    this.leave();
  }
}

function unanswered(sequence, reason, isDoubtful) {
  if (!isDoubtful) return new Error(`nothing was stored, send it again: ${reason}`);
  return new OutcomeUnknownError(
    `request ${sequence} may be stored or not (${reason}): it is kept, and the next call of send repeats it with the ` +
      "same number, so it is stored once; do not send its messages again",
  );
}

const LONGEST = 2 ** 31 - 1; // of a timer, in milliseconds

function within(promise, deadline) {
  const rest = Math.min(Math.max(0, deadline - Date.now()), LONGEST);
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("no answer in time")), rest);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// --- the program ---------------------------------------------------------------------------------------------------

// Sends each line of the standard input, and prints number and position. LRQ_FIRST is the number of the first line:
// lines whose numbers are stored are left out, so a repeated run stores nothing twice.
async function main([endpoints, client, name, ...destinations]) {
  if (!destinations.length) throw new Error("usage: node producer.js ENDPOINTS CLIENT PRODUCER SITE...");
  const { TLS_CERTIFICATE: certificate, TLS_KEY: key, TLS_AUTHORITY: authority } = process.env;
  const tls = { certificate, key, authority };
  const producer = new Producer(endpoints, { client, producer: name, tls });
  const lines = fs.readFileSync(0, "utf8").split("\n").filter(Boolean);
  const last = await producer.lastSequence(SECONDS * 1000);
  const first = Number(process.env.LRQ_FIRST ?? last + 1);
  if (!Number.isInteger(first) || first < 1) throw new Error("LRQ_FIRST must be the number of the first line");
  if (first > last + 1) producer.last = first - 1; // the server refuses the gap
  for (const line of lines.slice(Math.max(0, last - first + 1))) {
    const sent = producer.send([{ payload: line, destinations }], SECONDS * 1000);
    const reply = await sent.catch((error) => {
      throw error instanceof RefusedError ? error : new Error(interrupted(producer, error, first));
    });
    const place = reply.position ? `${reply.position.branch}/${reply.position.seq}` : "stored";
    console.log(`${reply.sequence} ${place}`);
  }
  producer.close();
}

const SECONDS = Number(process.env.LRQ_SECONDS ?? 20); // for each answer

// This process ends, so only a later run can repeat the request.
function interrupted(producer, error, first) {
  const unknown = error instanceof OutcomeUnknownError;
  const what = unknown ? `line ${producer.last + 2 - first} may be stored or not` : error.message;
  return `${what}: run the same command with LRQ_FIRST=${first}, which stores no line twice`;
}

module.exports = { Producer, OutcomeUnknownError, RefusedError };
if (require.main === module) {
  main(process.argv.slice(2)).catch((error) => {
    console.error(error.message);
    process.exit(1);
  });
}
