#include "launcher/agent/remote_starts.h"

#include <utility>

#include "launcher/agent/attempt/mpi_launch.h"
#include "launcher/wire/message_codec.h"
#include "launcher/wire/mpi_daemon.h"

namespace muster {

void RemoteStarts::ask(const std::shared_ptr<PeerConnection>& asker, RemoteStartAsked asked,
                       const LocalAttempt* attempt) {
  const auto refuse = [&](const std::string& why) {
    asker->write(encode(ToAgent{RemoteStartEnded{asked.ticket, ExitStatus{255, 0}, why}}));
    asker->close_when_written();
  };
  const auto& start = attempt == nullptr ? std::nullopt : attempt->start_request();
  if (!start || !start->mpi || start->node_index != 0) {
    return refuse("this node runs no such mpirun");
  }
  if (const auto daemon = read_mpi_daemon(asked.command); !daemon) {
    return refuse(daemon.error().message);
  }
  const auto& hosts = start->mpi->hosts;
  const auto names = mpi_host_names(hosts, site_.host_name);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == asked.host) asked.host = hosts[i];
  }
  asked.ticket = std::to_string(next_ticket_++);
  asker->set_handlers({[](Frame) {}, {}, [this, ticket = asked.ticket] { asks_.erase(ticket); }});
  site_.line.send(asked);  // without a line: with the next Welcome
  const std::string ticket = asked.ticket;
  asks_[ticket] = {asker, std::move(asked)};
}

void RemoteStarts::ended(const RemoteStartEnded& ended) {
  const auto ask = asks_.find(ended.ticket);
  if (ask == asks_.end()) return;
  const auto asker = ask->second.asker;
  asks_.erase(ask);
  asker->set_handlers({});
  asker->write(encode(ToAgent{ended}));
  asker->close_when_written();
}

void RemoteStarts::tell_again() const {
  for (const auto& [ticket, ask] : asks_) site_.line.send(ask.asked);
}

}  // namespace muster
