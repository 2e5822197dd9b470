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

function encodeMessage({ payload, destinations, itemKey, partitionKey, headers = {} }) {
  const parts = [bytes(1, payload), ...destinations.map((site) => bytes(2, site))];
  if (itemKey !== undefined) parts.push(bytes(3, itemKey));
  if (partitionKey !== undefined) parts.push(bytes(4, partitionKey));
  for (const [name, value] of Object.entries(headers)) {
    parts.push(bytes(5, Buffer.concat([bytes(1, name), bytes(2, value)])));
  }
  return Buffer.concat(parts);
}

function encodeRequest({ client, producer, process, first }, sequence, messages) {
  const parts = [bytes(1, client), bytes(2, producer), number(3, sequence), number(7, process), number(8, first)];
  return Buffer.concat([...parts, ...messages.map((each) => bytes(4, encodeMessage(each)))]);
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
    const fail = (error) => this.fail(error);
    this.session = http2.connect(authority, options);
    this.session.on("error", fail);
    this.call = this.session.request({
      ":method": "POST", ":path": "/lrq.Ingest/Produce", "content-type": "application/grpc", te: "trailers",
    });
    this.call.on("error", fail);
    this.call.on("data", (chunk) => this.take(chunk));
    const status = (headers) => {
      if (Number(headers["grpc-status"] ?? 0)) fail(new Error(decodeURIComponent(headers["grpc-message"] ?? "")));
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

// --- the rules of a producer ---------------------------------------------------------------------------------------

class RefusedError extends Error {}

// Sends one request at a time. A request without an answer is repeated with the same number, until an answer comes or
// the time has passed. After a timeout the request may be stored: the next call repeats that request first.
class Producer {
  constructor(endpoints, { client, producer, tls = {} }) {
    Object.assign(this, { endpoints: endpoints.split(","), client, producer, tls });
    this.stream = null;
    this.endpoint = null; // of the stream
    this.leader = null; // the endpoint of the server that stores requests, once another server has named it
    this.process = crypto.randomBytes(8).readBigUInt64BE() >> 1n; // the site tells processes of one name apart by it
    this.first = 0; // the first number of this process, once it is known
    this.last = null; // the last number that is known to be stored
    this.doubtful = null; // the messages of the request with number last + 1, if it may be stored
  }

  async lastSequence(timeout = 5000) {
    if (this.last === null) await this.repeat(0, [], Date.now() + timeout);
    return this.last;
  }

  async send(messages, timeout = 5000) {
    const deadline = Date.now() + timeout;
    await this.lastSequence(timeout);
    if (this.doubtful) await this.numbered(this.doubtful, deadline);
    return this.numbered(messages, deadline);
  }

  async numbered(messages, deadline) {
    this.doubtful = messages;
    try {
      const reply = await this.repeat(this.last + 1, messages, deadline);
      this.last += 1;
      this.doubtful = null;
      return reply;
    } catch (error) {
      if (error instanceof RefusedError) this.doubtful = null;
      throw error;
    }
  }

  async repeat(sequence, messages, deadline) {
    const request = encodeRequest(this, sequence, messages);
    for (let attempt = 0; ; attempt++) {
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
        if (!PASSING.has(reply.refusal)) throw new RefusedError(`${reply.refusal}: ${reply.reason}`);
        if (Date.now() >= deadline) throw new Error(`request ${sequence} is refused for now: ${reply.reason}`);
      } catch (error) {
        this.leave();
        if (error instanceof RefusedError) throw error;
        this.leader = null;
        if (Date.now() >= deadline) throw new Error(`request ${sequence} may be stored or not: ${error.message}`);
      }
      await new Promise((resolve) => setTimeout(resolve, Math.min(50 * 2 ** attempt, 1000)));
    }
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
    this.leave();
  }
}

function within(promise, deadline) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("no answer in time")), Math.max(0, deadline - Date.now()));
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// --- the program ---------------------------------------------------------------------------------------------------

// Sends each line of the standard input, and prints number and position. LRQ_FIRST is the number of the first line:
// lines whose numbers are stored are left out, so a repeated run stores nothing twice.
async function main([endpoints, client, name, ...destinations]) {
  const tls = { certificate: process.env.TLS_CERTIFICATE, key: process.env.TLS_KEY, authority: process.env.TLS_AUTHORITY };
  const producer = new Producer(endpoints, { client, producer: name, tls });
  const lines = fs.readFileSync(0, "utf8").split("\n").filter(Boolean);
  const last = await producer.lastSequence(20000);
  const first = Number(process.env.LRQ_FIRST ?? last + 1);
  if (first > last + 1) producer.last = first - 1; // the server refuses the gap
  for (const line of lines.slice(Math.max(0, last - first + 1))) {
    const reply = await producer.send([{ payload: line, destinations }], 20000);
    console.log(`${reply.sequence} ${reply.position?.branch}/${reply.position?.seq}`);
  }
  producer.close();
}

module.exports = { Producer, RefusedError };
if (require.main === module) {
  main(process.argv.slice(2)).catch((error) => {
    console.error(error.message);
    process.exit(1);
  });
}
