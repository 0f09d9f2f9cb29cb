// A command that runs on a node, as bytes: an ssh channel, or a child process. Used on one thread;
// every callback runs from the io_context, never from inside a call made here.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace muster {

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// For handlers that may outlive who handles: calls with the object first, while it lives.
template <class Object, class Call>
auto while_alive(std::weak_ptr<Object> weak, Call call) {
  return [weak = std::move(weak), call = std::move(call)](auto&&... arguments) {
    const auto self = weak.lock();
    if (self) std::invoke(call, *self, std::forward<decltype(arguments)>(arguments)...);
  };
}

struct RemoteExit {
  std::optional<int> status;  // nothing: the connection or a signal ended it
  std::string reason;         // what ended it, when there is no status
};

class RemoteProcess {
 public:
  struct Handlers {
    std::function<void(std::span<const std::byte>)> on_stdout;
    std::function<void(std::string_view)> on_stderr;
    std::function<void()> on_drained;  // everything written has been accepted by the network
    std::function<void(const RemoteExit&)> on_exit;  // once, after which nothing is called
  };

  virtual ~RemoteProcess() = default;          // ends it, calls nothing
  virtual void handle(Handlers handlers) = 0;  // replaces the handlers, also from inside one
  virtual void write(std::string bytes) = 0;
  virtual void close_stdin() = 0;  // after what is queued
  // While paused no output is given; the process is held back once the buffers on the way are full.
  virtual void pause(bool is_paused) = 0;
  virtual std::size_t queued_bytes() const = 0;
};

// What its owner has of a process whose `Work` may go on for a while when the owner lets it go.
template <class Work>
class OwnedProcess final : public RemoteProcess {
 public:
  explicit OwnedProcess(std::shared_ptr<Work> work) : work_(std::move(work)) {}
  ~OwnedProcess() override { work_->abandon(); }
  void handle(Handlers handlers) override { work_->handle(std::move(handlers)); }
  void write(std::string bytes) override { work_->write(std::move(bytes)); }
  void close_stdin() override { work_->close_stdin(); }
  void pause(bool is_paused) override { work_->pause(is_paused); }
  std::size_t queued_bytes() const override { return work_->queued_bytes(); }

 private:
  std::shared_ptr<Work> work_;
};

// Something that runs commands on one node: an authenticated session, `ssh` and its arguments, or
// the shell of this machine.
class RemoteShell {
 public:
  virtual ~RemoteShell() = default;
  virtual std::unique_ptr<RemoteProcess> run(const std::string& command) = 0;
};

}  // namespace muster
