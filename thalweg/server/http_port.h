// SPDX-License-Identifier: Apache-2.0
// A small HTTP server for the status of a task.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace thalweg {

struct HttpRequest {
  std::string path;                          // "/status.json"
  std::map<std::string, std::string> query;  // decoded parameters
};

struct HttpResponse {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

struct HttpPortOptions {
  std::string address;  // "host:port" to listen on; port 0 is any free port
  // If it is not empty, requests must carry it: "Authorization: Bearer TOKEN", or
  // "?token=TOKEN". If it is empty, their Host must be an IP address, "localhost", the name of
  // this machine or the host of `address`: a web page of another name cannot read this port
  // (DNS rebinding).
  std::string token;
  // Answers a request. Called on several threads at once.
  std::function<HttpResponse(const HttpRequest&)> handler;
  // Whether answering may block, for about a second at most. Other requests are answered
  // meanwhile. nullptr: never.
  std::function<bool(const HttpRequest&)> blocks;
};

// Serves GET requests. One thread reads and writes for all clients, so slow ones do not keep
// others waiting. A connection serves one request. A client that takes more than a second to
// send it, or ten to take the answer, is cut off; with too many clients that are silent, or
// that do not take their answers, the oldest is. Thread-safe.
class HttpPort {
 public:
  // UNKNOWN, naming the address, if it cannot listen there.
  static absl::StatusOr<std::unique_ptr<HttpPort>> Start(HttpPortOptions options);
  ~HttpPort();  // waits for the running requests
  HttpPort(const HttpPort&) = delete;
  HttpPort& operator=(const HttpPort&) = delete;

  int port() const;

 private:
  class State;
  explicit HttpPort(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace thalweg
