// Loaded before azurite, whose own option for it has no effect: a server keeps connections that rest.
const http = require("node:http");

Object.defineProperty(http.Server.prototype, "keepAliveTimeout", { get: () => 600_000, set: () => {} });
