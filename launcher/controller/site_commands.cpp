#include "launcher/controller/site_commands.h"

#include <boost/asio/io_context.hpp>

#include "launcher/transport/child_process.h"

namespace muster {

namespace {

constexpr std::size_t bytes_kept = 4096;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// ASCII alone: it goes into JSON.
void keep_last(std::string& text, std::string_view more) {
  for (const char c : more) text += c == '\n' || (c >= ' ' && c <= '~') ? c : '?';
  if (text.size() > bytes_kept) text.erase(0, text.size() - bytes_kept);
}

}  // namespace

struct SiteCommands::Running {
  std::unique_ptr<RemoteProcess> process;
  std::unique_ptr<Alarm> limit;
  std::string complained;
  std::function<void(const CommandEnded&)> done;
};

SiteCommands::SiteCommands(boost::asio::io_context& io, Timers& timers)
    : io_(io), timers_(timers) {}
SiteCommands::~SiteCommands() = default;

void SiteCommands::run(const std::vector<std::string>& argv, Milliseconds limit,
                       std::function<void(const CommandEnded&)> done) {
  const int number = next_++;
  Running& running = *(running_[number] = std::make_unique<Running>());
  running.done = std::move(done);
  running.limit = timers_.after(limit, [this, number, limit] {
    end(number,
        {{}, "its command did not end within " + std::to_string(limit.count() / 1000) + " s", {}});
  });
  running.process = start_child(io_, argv);
  RemoteProcess::Handlers handlers;
  handlers.on_stdout = [](std::span<const std::byte>) {};
  handlers.on_stderr = [&running](std::string_view text) { keep_last(running.complained, text); };
  handlers.on_drained = [] {};
  handlers.on_exit = [this, number](const RemoteExit& exit) {
    if (exit.status) return end(number, {{*exit.status, 0}, {}, {}});
    end(number, {{}, "its command: " + exit.reason, {}});
  };
  running.process->handle(std::move(handlers));
  running.process->close_stdin();
}

// Not from inside its own process's callback.
void SiteCommands::end(int number, CommandEnded ended) {
  const auto found = running_.find(number);
  if (found == running_.end()) return;
  const std::shared_ptr<Running> running = std::move(found->second);
  running_.erase(found);
  ended.lines = lines_of(running->complained);
  running->done(ended);
  timers_.post([running] {});
}

}  // namespace muster
