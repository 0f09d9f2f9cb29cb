#include "launcher/agent/board_look.h"

#include <utility>
#include <variant>

#include "health/read/node_reader.h"

namespace muster {

namespace {

using std::chrono::milliseconds;

// The tool has limits of its own, shorter than these. A helper that is killed is waited for no
// longer than a job would notice.
constexpr NodeReaderLimits limits{milliseconds(5'000), milliseconds(5'000), milliseconds(60'000),
                                  milliseconds(50)};

}  // namespace

BoardLook::BoardLook(std::vector<std::string> helper, std::chrono::milliseconds quiet)
    : helper_(std::move(helper)), quiet_(quiet) {}

BoardLook::~BoardLook() {
  reader_.reset();  // asks for the dead
}

void BoardLook::stop() {
  quiet_since_ = boot_time();
  if (!run_) return;
  is_owed_ = true;
  run_.reset();
  end_reader();
}

// What it started dies with it. One that hangs in the kernel is of no attempt either.
void BoardLook::end_reader() {
  if (!reader_) return;
  if (const pid_t helper = reader_->helper(); helper != 0) ending_.add(helper);
  reader_->pause();
  if (reader_->helper() == 0) reader_.reset();
}

bool BoardLook::is_due(const std::function<bool()>& has_fault) {
  const BootTime now = boot_time();
  if (run_ || now - quiet_since_ < quiet_) return false;
  if (is_owed_) return true;
  if (now - looked_at_ < again_after) return false;
  looked_at_ = now;
  return has_fault();
}

void BoardLook::begin(NodeMonitor& monitor, const CheckSituation& situation) {
  if (!reader_) {
    NodeReader::Options options;
    options.helper = helper_;
    options.limits = limits;
    options.wait = dead_.wait();
    reader_ = std::make_unique<NodeReader>(std::move(options));
  }
  reader_->resume();
  is_owed_ = false;
  is_reading_ = false;
  looked_at_ = boot_time();
  run_ = std::make_unique<CheckRun>(monitor, situation);
}

std::optional<std::vector<HealthFinding>> BoardLook::poll(const CheckMoment& now) {
  ending_.are_gone();
  if (reader_) reader_->advance();
  while (run_) {
    if (is_reading_) {
      auto readings = reader_->take();
      if (!readings) return std::nullopt;
      is_reading_ = false;
      run_->read(*readings, now);
    }
    const RunStep next = run_->next();
    if (const auto* read = std::get_if<ReadNext>(&next)) {
      reader_->begin(read->request);
      is_reading_ = true;
      reader_->advance();
    } else if (std::holds_alternative<PauseNext>(next)) {
      run_->paused();
    } else {
      std::vector<HealthFinding> findings = run_->findings();
      run_.reset();
      end_reader();
      return findings;
    }
  }
  return std::nullopt;
}

bool BoardLook::reaped(pid_t pid, int wait_status) {
  return dead_.reaped(reader_.get(), pid, wait_status);
}

std::set<pid_t> BoardLook::sessions() const {
  std::set<pid_t> sessions;
  if (reader_ && reader_->helper() != 0) sessions.insert(reader_->helper());
  for (const auto& [session, until] : ending_.all()) sessions.insert(session);
  return sessions;
}

}  // namespace muster
