// Answers for clients that read slower than nodes answer: each is kept until the client has read
// what it was sent, and beyond a bound it is replaced by the sentence that says so. Owned by the
// HealthDesk, on its thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "launcher/controller/clients/server.h"

namespace muster {

class SlowClients {
 public:
  using Client = std::shared_ptr<Session>;

  // `on_room`: is_behind() is over.
  explicit SlowClients(std::function<void(const Client&)> on_room) : on_room_(std::move(on_room)) {}

  void answer(const Client& client, NodeLooked looked, std::string payload);
  // Ends the connection behind the last answer.
  void finish(const Client& client);
  // So much waits for it that nothing more should be asked for.
  bool is_behind(const Client& client) const;
  void gone(const Client& client) { waiting_.erase(client); }

 private:
  struct Answer {
    NodeLooked looked;
    std::string payload;
  };
  struct Waiting {
    std::deque<Answer> answers;
    std::size_t bytes = 0;
    bool is_finished = false;
  };

  void send_on(const std::weak_ptr<Session>& client);

  std::function<void(const Client&)> on_room_;
  std::map<Client, Waiting> waiting_;
};

}  // namespace muster
