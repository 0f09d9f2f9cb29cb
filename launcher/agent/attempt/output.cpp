#include "launcher/agent/attempt/output.h"

#include <algorithm>

#include "launcher/agent/node/log.h"

namespace muster {

namespace {

// A rank that prints line by line fills its pipe thousands of times a second; looking once a
// millisecond sends many lines in one frame. One that has filled half of it is not kept waiting.
constexpr std::chrono::milliseconds pause_between_looks{1};

std::chrono::milliseconds pause_after(std::int64_t moved, const OutputPipe& pipe) {
  return moved < pipe.capacity() / 2 ? pause_between_looks : std::chrono::milliseconds{0};
}

}  // namespace

AttemptOutput::AttemptOutput(boost::asio::io_context& io, AttemptKey key, std::string directory,
                             std::function<void()> on_output)
    : io_(io),
      key_(std::move(key)),
      directory_(std::move(directory)),
      on_output_(std::move(on_output)) {}

Result<AttemptOutput::Source*> AttemptOutput::add(RankId rank) {
  auto spool = Spool::open(directory_, rank);
  if (!spool) return spool.error();
  return &sources_.emplace(rank, Source{std::move(*spool), {}}).first->second;
}

Result<Spool*> AttemptOutput::open(RankId rank) {
  if (Spool* known = find(rank)) return known;
  auto source = add(rank);
  if (!source) return source.error();
  Spool& spool = (*source)->spool;
  if (Status made = spool.make_pipe(); !made) return made.error();
  (*source)->watch.emplace(io_, spool.pipe()->fd(), [this, added = *source] {
    move(*added);
    on_output_();
  });
  (*source)->watch->report_next({});
  return &spool;
}

void AttemptOutput::open_existing() {
  for (const RankId rank : Spool::ranks_in(directory_)) static_cast<void>(add(rank));
  finish();
}

Spool* AttemptOutput::find(RankId rank) {
  const auto found = sources_.find(rank);
  return found == sources_.end() ? nullptr : &found->second.spool;
}

void AttemptOutput::list_pipes(std::vector<int>& pipes) const {
  for (const auto& [rank, source] : sources_) {
    if (source.spool.pipe()) pipes.push_back(source.spool.pipe()->fd());
  }
}

// ---- into the spools --------------------------------------------------------------------------

bool AttemptOutput::has_room(Source& source, const Status& moved) {
  if (moved) return true;
  if (!source.is_without_room) {
    log_line(moved.error().message + ": the output of rank " +
             std::to_string(source.spool.rank().value) + " of " + key_.job.value +
             " goes to the controller alone, which it waits for");
  }
  source.is_without_room = true;
  source.spool.look_ahead();
  return false;
}

void AttemptOutput::move(Source& source) {
  if (!source.spool.pipe() || source.spool.is_full()) return;
  const auto moved = source.spool.take_in();
  if (!has_room(source, moved ? Status{Done{}} : moved.error())) return;
  if (*moved > 0) source.is_without_room = false;
  if (source.watch) source.watch->report_next(pause_after(*moved, *source.spool.pipe()));
}

void AttemptOutput::move() {
  for (auto& [rank, source] : sources_) {
    if (source.is_discarded) source.spool.remove();
  }
  std::erase_if(sources_, [](const auto& item) { return item.second.is_discarded; });
  for (auto& [rank, source] : sources_) move(source);
}

bool AttemptOutput::move_to(RankId rank, std::int64_t size) {
  const auto found = sources_.find(rank);
  if (found == sources_.end()) return true;
  return has_room(found->second, found->second.spool.take_in_to(size));
}

void AttemptOutput::finish() {
  for (auto& [rank, source] : sources_) {
    Spool& spool = source.spool;
    if (!spool.pipe() || !has_room(source, spool.take_in_to(spool.end()))) continue;
    source.watch.reset();
    spool.remove_pipe();
  }
}

bool AttemptOutput::is_moved() const {
  return std::none_of(sources_.begin(), sources_.end(), [](const auto& item) {
    const Spool& spool = item.second.spool;
    return spool.end() > spool.size();
  });
}

// ---- to the controller ------------------------------------------------------------------------

void AttemptOutput::pump(ControllerLine& line) {
  for (bool sent = true; sent;) {
    sent = false;
    for (auto& [rank, source] : sources_) {
      if (!line.has_room()) return;
      const std::int64_t offset = source.spool.sent();
      const std::string chunk = source.spool.take_chunk();
      if (chunk.empty()) continue;
      if (is_of_command(rank)) {
        line.send(RemoteOutput{key_.job, key_.attempt, number_of(rank), offset}, chunk);
      } else {
        if (rank != mpirun_rank) patterns_.take(rank, offset, chunk);
        line.send(RankOutput{key_.job, key_.attempt, rank, offset}, chunk);
      }
      sent = true;
    }
  }
}

void AttemptOutput::acknowledge(RankId rank, std::int64_t offset) {
  const auto found = sources_.find(rank);
  if (found == sources_.end()) return;
  Source& source = found->second;
  const bool was_full = source.spool.is_full() || source.is_without_room;
  source.spool.acknowledge(offset);
  if (was_full) move(source);
}

void AttemptOutput::rewind() {
  for (auto& [rank, source] : sources_) source.spool.rewind();
}

void AttemptOutput::rewind(RankId rank) {
  if (Spool* known = find(rank)) known->rewind();
}

void AttemptOutput::discard(RankId rank) {
  const auto found = sources_.find(rank);
  if (found != sources_.end()) found->second.is_discarded = true;
}

// Whoever asked for a command may be gone: the attempt's end does not wait for its output.
bool AttemptOutput::has_sent_everything() const {
  return std::all_of(sources_.begin(), sources_.end(), [](const auto& item) {
    return is_of_command(item.first) || item.second.spool.has_sent_everything();
  });
}

}  // namespace muster
