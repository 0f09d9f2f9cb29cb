// The output of one attempt: from the pipes of its ranks into their spools, and from there to the
// controller chunk by chunk, the ranks in turn. Owned by the attempt, on the agent's thread. A pipe
// is left alone, so that its rank waits, while its spool is too far ahead of the controller or the
// disk is full; `move` tries again. On a full disk what a pipe holds is sent from there. Sends only
// what the line has room for; whoever sees room again calls `pump`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "launcher/agent/keeper/layout.h"
#include "launcher/agent/keeper/spool.h"
#include "launcher/agent/metric_sources/follow.h"
#include "launcher/agent/node/peer.h"

namespace muster {

class AttemptOutput {
 public:
  // `on_output`: something was moved, it can be sent.
  AttemptOutput(boost::asio::io_context& io, AttemptKey key, std::string directory,
                std::function<void()> on_output);

  // The spool of a rank that is going to start, with a pipe that is watched.
  Result<Spool*> open(RankId rank);
  // Every spool that lies in the directory, and what their pipes hold: after a restart of the
  // agent.
  void open_existing();
  Spool* find(RankId rank);
  void list_pipes(std::vector<int>& pipes) const;

  void move();
  // What the rank's pipe holds up to that size; false while the disk has no room for it.
  bool move_to(RankId rank, std::int64_t size);
  // No process writes any more: what is left in the pipes is moved, and they go.
  void finish();
  // Finished, and sent.
  bool has_sent_everything() const;
  bool is_moved() const;

  void pump(ControllerLine& line);
  OutputPatterns& patterns() { return patterns_; }
  void acknowledge(RankId rank, std::int64_t offset);
  void rewind();
  void rewind(RankId rank);
  // A command behind the door has ended and all of it was taken: with the next `move` it goes.
  void discard(RankId rank);

 private:
  struct Source {
    Spool spool;
    std::optional<PipeWatch> watch;
    bool is_without_room = false;  // and that has been said
    bool is_discarded = false;
  };

  Result<Source*> add(RankId rank);
  void move(Source& source);
  bool has_room(Source& source, const Status& moved);  // or looks ahead

  boost::asio::io_context& io_;
  AttemptKey key_;
  std::string directory_;
  std::function<void()> on_output_;
  OutputPatterns patterns_;
  std::map<RankId, Source> sources_;
};

}  // namespace muster
