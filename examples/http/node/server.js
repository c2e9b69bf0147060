// Both routes on one port:  PORT=8000 node server.js
import { app } from "./payments.js";
import "./charges.js";

await app.listen({ port: Number(process.env.PORT ?? 8000) });
