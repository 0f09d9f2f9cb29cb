// A controller reduced to its wire: sends messages to one agent, keeps what comes, acknowledges
// output. Every wait has a deadline; one thread.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/os/fd.h"
#include "launcher/wire/agent_message.h"
#include "launcher/wire/frame.h"

namespace muster {

inline constexpr std::chrono::seconds patience{60};

class AgentClient {
 public:
  explicit AgentClient(const std::string& socket_path);
  explicit AgentClient(Fd stream) : socket_(std::move(stream)) {}

  Welcome hello(const std::string& controller, const std::string& node,
                Milliseconds lease = Milliseconds{60000});
  void send(const ToAgent& message, std::string_view payload = {});
  // Takes what has come, waiting at most `limit` for something; false when the agent disconnected.
  bool take(std::chrono::milliseconds limit);
  // Until `holds`; false when the time is over or the agent disconnected.
  bool wait(const std::function<bool()>& holds, std::chrono::milliseconds limit = patience);

  // The next message of this kind that was not asked for before.
  template <class T>
  std::optional<T> await(std::chrono::milliseconds limit = patience) {
    std::optional<T> found;
    wait([&] { return (found = pick<T>()).has_value(); }, limit);
    return found;
  }

  template <class T>
  T expect(std::chrono::milliseconds limit = patience) {
    return await<T>(limit).value();  // throws, which fails the test
  }
  template <class T>
  T ask(const ToAgent& request) {
    send(request);
    return expect<T>();
  }

  std::string& output(std::int64_t rank) { return outputs_[rank]; }
  std::map<std::int64_t, RankEnded>& ended() { return ended_; }
  // How much of the rank's output had come when its end was told first.
  std::int64_t bytes_before_end(std::int64_t rank) const { return bytes_before_end_.at(rank); }
  std::vector<Progress>& progress() { return progress_; }
  std::map<std::string, std::string>& files() { return files_; }
  std::map<std::string, std::string>& exec_output() { return exec_output_; }
  // As if this much of the rank's output had come over an earlier connection.
  void skip(std::int64_t rank, const std::string& known) {
    outputs_[rank] = known;
    sizes_[rank] = static_cast<std::int64_t>(known.size());
  }
  bool acknowledges = true;
  bool keeps_output = true;  // false: counts only
  std::int64_t output_bytes = 0;
  std::function<void(const RemoteStartAsked&)> on_remote_start;
  std::function<void(const RemoteStartEnded&)> on_remote_start_ended;
  std::string fault;  // a rule of the protocol that the agent broke

 private:
  template <class T>
  std::optional<T> pick() {
    for (auto at = inbox_.begin(); at != inbox_.end(); ++at) {
      if (auto* message = std::get_if<T>(&*at)) {
        T taken = std::move(*message);
        inbox_.erase(at);
        return taken;
      }
    }
    return {};
  }
  void handle(FromAgent message, std::string payload);
  void take_output(const RankOutput& piece, const std::string& payload);

  Fd socket_;
  FrameReader reader_;
  std::deque<FromAgent> inbox_;
  std::map<std::int64_t, std::string> outputs_;
  std::map<std::int64_t, std::int64_t> sizes_;
  std::map<std::int64_t, RankEnded> ended_;
  std::map<std::int64_t, std::int64_t> bytes_before_end_;
  std::vector<Progress> progress_;
  std::map<std::string, std::string> files_;
  std::map<std::string, std::string> exec_output_;  // id, or id + "!" for stderr
};

}  // namespace muster
