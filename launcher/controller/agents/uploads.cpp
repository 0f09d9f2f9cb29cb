#include "launcher/controller/agents/uploads.h"

#include "launcher/data/datastore.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// A hundred terabytes at a gigabyte a second; one that hangs ends by rclone's own limits.
constexpr Milliseconds upload_limit{28 * 3600 * 1000};
// Far below the scheduler's limit for a node that sends nothing.
constexpr Milliseconds seen_interval{60'000};

}  // namespace

OutputUploads::OutputUploads(Timers& timers, Home home, std::string binary, RunCommand run,
                             Observer& observer)
    : timers_(timers),
      home_(std::move(home)),
      binary_(std::move(binary)),
      run_(std::move(run)),
      observer_(observer) {}

bool OutputUploads::begin(const OutputsCollected& collected, bool is_over) {
  const auto data = load_job_data(home_.job(collected.job));
  if (!data) {
    OutputsCollected unread = collected;
    unread.not_uploaded = data.error().message;
    observer_.observe(std::move(unread));
    return true;
  }
  if (!run_ || data->outputs.empty()) return false;
  if (running_.contains(collected.job)) return true;
  keep_alive(collected);
  run_({binary_, "agent", "upload", home_.root.string(), collected.job.value,
        is_over ? "finished" : "goes-on"},
       upload_limit, [this, collected](const CommandEnded& ended) {
         running_.erase(collected.job);
         OutputsCollected done = collected;
         if (ended.status.code != 0 || ended.status.signal != 0 || !ended.error.empty()) {
           done.not_uploaded = ended.error;
           for (const std::string& line : ended.lines) {
             done.not_uploaded += (done.not_uploaded.empty() ? "" : "; ") + line;
           }
           if (done.not_uploaded.empty()) done.not_uploaded = "the process that did it was killed";
           done.not_uploaded = shortened(done.not_uploaded, 1000);
         }
         observer_.observe(std::move(done));
       });
  return true;
}

void OutputUploads::keep_alive(const OutputsCollected& collected) {
  running_[collected.job] = timers_.after(seen_interval, [this, collected] {
    observer_.observe(CollectionSeen{collected.job, collected.attempt, collected.node, 0});
    keep_alive(collected);
  });
}

}  // namespace muster
