#include "launcher/controller/agents/node_folders.h"

#include <algorithm>

#include "runtime/protocol/boot_clock.h"

namespace muster {

namespace {

// What nodes sent is in the page cache: kernels write it to the disk within half a minute. Until
// then the node's own copy stays.
constexpr Milliseconds outputs_settle{2 * 60'000};

// Each is a look into the journal, and a cluster that reconnects names thousands of folders.
constexpr std::size_t folders_of_node = 1000;
constexpr int looks_at_once = 16;
constexpr Milliseconds look_pause{20};

}  // namespace

NodeFolders::NodeFolders(Timers& timers, const Journal& journal, AgentPool& pool,
                         std::function<bool(const JobId&)> is_over)
    : timers_(timers), journal_(journal), pool_(pool), is_over_(std::move(is_over)) {}

void NodeFolders::job_over(const JobId& job) {
  forget(job);
  ended_lately_.emplace_back(timers_.now() + outputs_settle, job);
  if (!settled_) settled_ = timers_.after(outputs_settle, [this] { forget_settled(); });
}

void NodeFolders::node_up(const NodeId& node, const Welcome& welcome) {
  const std::vector<JobId>& folders = welcome.folders;
  std::erase_if(named_, [&node](const auto& item) { return item.first == node; });
  const std::size_t count = std::min(folders.size(), folders_of_node);
  for (std::size_t i = 0; i < count; ++i) named_.emplace_back(node, folders[i]);
  if (!look_ && !named_.empty()) look_ = timers_.after(look_pause, [this] { look_at_some(); });
}

// Of a job that the journal does not know nothing is removed: another copy of the state directory
// may own it. After a reboot what was not yet on the disk may be lost.
std::optional<JobLeavings> NodeFolders::leavings(const JobId& job) const {
  if (!is_over_(job)) return std::nullopt;
  const auto row = journal_.job(job);
  if (!row || !*row || !(*row)->ended_at || (*row)->unclean) return std::nullopt;
  const auto records = journal_.records_of(job);
  if (!records) return std::nullopt;
  JobLeavings leavings = leavings_of(*records);
  const Time now = timers_.wall_now();
  const Time ended = *(*row)->ended_at;
  const bool is_on_disk = now - ended >= outputs_settle && now - Milliseconds{boot_ms()} < ended;
  leavings.outputs_too = leavings.outputs_too && (is_on_disk || records->empty());
  return leavings;
}

void NodeFolders::forget(const JobId& job) {
  const auto left = leavings(job);
  if (!left) return;
  for (const NodeId& node : left->nodes) pool_.send(node, ForgetJob{job, left->outputs_too});
}

void NodeFolders::forget_settled() {
  settled_.reset();
  const auto now = timers_.now();
  for (; !ended_lately_.empty() && ended_lately_.front().first <= now; ended_lately_.pop_front()) {
    forget(ended_lately_.front().second);
  }
  if (ended_lately_.empty()) return;
  const auto pause = std::chrono::duration_cast<Milliseconds>(ended_lately_.front().first - now);
  settled_ = timers_.after(pause + Milliseconds{1}, [this] { forget_settled(); });
}

void NodeFolders::look_at_some() {
  look_.reset();
  for (int looks = 0; looks < looks_at_once && !named_.empty(); ++looks) {
    const auto [node, job] = named_.front();
    named_.pop_front();
    if (const auto left = leavings(job)) pool_.send(node, ForgetJob{job, left->outputs_too});
  }
  if (!named_.empty()) look_ = timers_.after(look_pause, [this] { look_at_some(); });
}

}  // namespace muster
