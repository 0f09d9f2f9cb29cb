#include "launcher/agent/attempt_output.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace muster {

Result<Spool*> AttemptOutput::open(RankId rank) {
  if (Spool* known = find(rank)) return known;
  auto spool = Spool::open(directory_, rank);
  if (!spool) return spool.error();
  return &spools_.emplace(rank, std::move(*spool)).first->second;
}

void AttemptOutput::open_existing() {
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, failed)) {
    const std::string name = entry.path().filename().string();
    if (name == Spool::file_name(mpirun_rank)) {
      static_cast<void>(open(mpirun_rank));
    } else if (name.starts_with("rank-") && name.ends_with(".out")) {
      static_cast<void>(open(RankId{std::atoll(name.c_str() + 5)}));
    }
  }
}

Spool* AttemptOutput::find(RankId rank) {
  const auto found = spools_.find(rank);
  return found == spools_.end() ? nullptr : &found->second;
}

void AttemptOutput::pump(ControllerLine& line) {
  for (bool sent = true; sent;) {
    sent = false;
    for (auto& [rank, spool] : spools_) {
      if (!line.has_room()) return;
      const std::int64_t offset = spool.sent();
      const std::string chunk = spool.take_chunk();
      if (chunk.empty()) continue;
      line.send(RankOutput{key_.job, key_.attempt, rank, offset}, chunk);
      sent = true;
    }
  }
}

void AttemptOutput::acknowledge(RankId rank, std::int64_t offset) {
  if (Spool* spool = find(rank)) spool->acknowledge(offset);
}

void AttemptOutput::rewind() {
  for (auto& [rank, spool] : spools_) spool.rewind();
}

bool AttemptOutput::has_sent_everything() const {
  return std::all_of(spools_.begin(), spools_.end(),
                     [](const auto& item) { return item.second.has_sent_everything(); });
}

}  // namespace muster
