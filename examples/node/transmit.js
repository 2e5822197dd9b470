// Insert an order and transmit it to other sites, in one transaction: both happen, or neither.

const { Client } = require("pg");

const SITES = (process.env.SITES || "tokyo,lima").split(",");
const TRANSMIT =
  "SELECT lrq_transmit(client => 'orders', payload => $1, destinations => $2, headers => $3) AS token";

async function place(database, order, approve) {
  await database.query("BEGIN");
  try {
    await database.query("INSERT INTO node_orders (id, item) VALUES ($1, $2)", [order.id, order.item]);
    const values = [Buffer.from(JSON.stringify(order)), SITES, { program: "node" }];
    const { rows } = await database.query(TRANSMIT, values);
    approve(order);
    await database.query("COMMIT");
    console.log(`order ${order.id} is sent: ${rows[0].token}`);
  } catch (error) {
    await database.query("ROLLBACK");
    console.log(`order ${order.id} is not sent: ${error.message} (${error.code})`);
  }
}

function approve(order) {
  if (order.item === "nothing") {
    throw Object.assign(new Error("an order needs an item"), { code: "APP" });
  }
}

async function main() {
  const database = new Client({ connectionString: process.env.DATABASE_URL });
  await database.connect();
  await database.query("CREATE TABLE IF NOT EXISTS node_orders (id int PRIMARY KEY, item text)");
  await place(database, { id: 1, item: "tea" }, approve);
  await place(database, { id: 2, item: "nothing" }, approve);
  await place(database, { id: 3, item: "büchse 🫖" }, approve);
  await place(database, { id: 3, item: "again" }, approve);
  await database.end();
}

main();
