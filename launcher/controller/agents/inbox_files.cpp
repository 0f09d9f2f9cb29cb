// AgentInbox's part that takes the files of nodes whose ranks are gone: of all nodes at the end of
// an attempt, of one that leaves while the others go on.
#include <algorithm>

#include "launcher/controller/agents/inbox.h"
#include "scheduler/state/lookup.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// Far below the core's limit for a node that sends nothing, and few records in a long collection.
constexpr Milliseconds collection_interval{60'000};

constexpr std::size_t text_bytes_most = 400;
constexpr std::size_t lines_most = 10;

}  // namespace

Result<FileSink> AgentInbox::open_sink(const JobId& job, AttemptId attempt) const {
  auto earlier = load_settled(home_.settled(job, attempt));
  if (!earlier) return earlier.error();
  return FileSink::open(home_.job(job), {"outputs", "logs"}, std::move(*earlier));
}

FileSink* AgentInbox::sink_of(const JobId& job, AttemptId attempt, Arrival& arrival) {
  auto& sink = sinks_[job];
  if (sink) return sink.get();
  auto opened = open_sink(job, attempt);
  if (opened) {
    sink = std::make_unique<FileSink>(std::move(*opened));
    return sink.get();
  }
  sinks_.erase(job);
  if (arrival.trouble.empty()) arrival.trouble = opened.error().message;
  return nullptr;
}

void AgentInbox::file(const NodeId& node, const FileData& piece, std::string_view payload) {
  const int index = node_index(piece.job, piece.attempt, node);
  if (index < 0) return;
  Arrival& arrival = arrivals_[{piece.job, node}];
  FileSink* sink = sink_of(piece.job, piece.attempt, arrival);
  if (sink == nullptr) return;
  const auto done = sink->accept(index, piece.entry, piece.offset, payload, piece.last);
  if (!done && arrival.trouble.empty()) arrival.trouble = done.error().message;
  arrival.bytes += static_cast<std::int64_t>(payload.size());
  const Time now = timers_.wall_now();
  if (arrival.told && now - *arrival.told < collection_interval) return;
  arrival.told = now;
  observer_.observe(CollectionSeen{piece.job, piece.attempt, node, arrival.bytes});
}

// What failed on either side is the node's to send again; what could not be put in place at the
// end, everybody's who can be asked once more.
void AgentInbox::outputs_sent(const NodeId& node, const CollectDone& sent) {
  const int index = node_index(sent.job, sent.attempt, node);
  if (index < 0) return;
  for (const std::string& sentence : sent.left_out) observer_.note(sent.job, sentence);
  const auto arrival = arrivals_.extract({sent.job, node});
  std::string error = sent.error;
  if (!arrival.empty() && !arrival.mapped().trouble.empty()) {
    error += (error.empty() ? "" : "; ") + arrival.mapped().trouble;
  }
  const Attempt& attempt = *find_attempt(state_, sent.job, sent.attempt);
  const bool leaves = !is_active(attempt.nodes[static_cast<std::size_t>(index)]);
  if (leaves && error.empty()) {
    if (Status left = settle_leaver(sent, index); !left) error = left.error().message;
  }
  const bool is_last = error.empty() && is_last_to_deliver(node, sent);
  const Status settled = is_last ? settle_files(sent.job) : Status(Done{});
  if (settled) return observer_.observe(OutputsCollected{sent.job, sent.attempt, node, error});
  if (leaves) observer_.observe(OutputsCollected{sent.job, sent.attempt, node, {}});
  for (const AttemptNode& one : attempt.nodes) {
    if (!is_active(one)) continue;
    observer_.observe(OutputsCollected{sent.job, sent.attempt, one.id, settled.error().message});
  }
}

// Before the record by which the node is let go: a controller that dies here collects from it
// again, and a later one knows what must stay.
Status AgentInbox::settle_leaver(const CollectDone& collected, int index) {
  const auto found = sinks_.find(collected.job);
  if (found == sinks_.end()) return Done{};
  if (Status done = found->second->finish_node(index); !done) return done;
  return save_settled(home_.settled(collected.job, collected.attempt), found->second->settled());
}

// Before the record that ends the collection: a controller that dies here collects again.
bool AgentInbox::is_last_to_deliver(const NodeId& node, const CollectDone& collected) const {
  const Attempt& attempt = *find_attempt(state_, collected.job, collected.attempt);
  if (!phase_of<Collecting>(attempt)) return false;
  return std::ranges::none_of(attempt.nodes, [&](const AttemptNode& other) {
    return other.id != node && !is_released(other) && may_deliver(other);
  });
}

bool AgentInbox::has_left_files(const JobId& job) const {
  std::error_code failure;
  return std::filesystem::exists(home_.job(job) / FileSink::gathered_in, failure) || failure;
}

Status AgentInbox::settle_files(const JobId& job) {
  const auto found = sinks_.find(job);
  if (found == sinks_.end()) return Done{};
  const auto sink = std::move(found->second);
  sinks_.erase(found);
  Status done = sink->finish();
  for (const std::string& problem : sink->problems()) observer_.note(job, problem);
  return done;
}

void limit_text(std::string& text) {
  if (text.size() <= text_bytes_most) return;
  text = to_utf8(std::string_view(text).substr(0, text_bytes_most));
}

void limit_lines(std::vector<std::string>& lines) {
  if (lines.size() > lines_most) {
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(lines_most));
  }
  for (std::string& line : lines) limit_text(line);
}

}  // namespace muster
