#include "launcher/controller/clients/watchers.h"

#include <algorithm>

namespace muster {

void Watchers::add(const JobId& job, const std::shared_ptr<Session>& session) {
  auto& list = sessions_[job];
  std::erase_if(list, [](const auto& weak) { return weak.expired(); });
  list.push_back(session);
}

void Watchers::tell(const JobId& job, const JobEvent& event) {
  const auto found = sessions_.find(job);
  if (found == sessions_.end()) return;
  for (const auto& weak : found->second) {
    if (const auto session = weak.lock()) session->send(event);
  }
}

void Watchers::end(const Ended& ended) {
  const auto found = sessions_.find(ended.job);
  if (found == sessions_.end()) return;
  for (const auto& weak : found->second) {
    const auto session = weak.lock();
    if (!session) continue;
    session->send(ended);
    session->finish();
  }
  sessions_.erase(found);
}

}  // namespace muster
