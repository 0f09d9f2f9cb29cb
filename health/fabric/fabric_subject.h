// Whom a finding about a port or a cable belongs to, and the findings of one check by whom they
// belong to.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "health/fabric/fabric.h"
#include "health/fabric/judges.h"

namespace muster {

struct FabricSubject {
  std::string host;  // empty: nobody's
  std::string device;
  std::string serial;  // the GUID of the adapter's port
  friend auto operator<=>(const FabricSubject&, const FabricSubject&) = default;
};

// The names that two readings know, the first before the second.
class FabricNames {
 public:
  explicit FabricNames(const Fabric& first, const Fabric* second = nullptr);

  // "leaf1[7]"
  std::string end(const FabricEnd& one) const { return text_of(names_, one); }
  std::string name(std::uint64_t guid) const;
  // Of an adapter whose name says a host; nothing otherwise.
  std::optional<FabricSubject> adapter(const FabricEnd& one) const;
  // The adapters at its ends; without any, the cable itself.
  std::vector<FabricSubject> cable(const FabricLink& link) const;

 private:
  Fabric names_;  // nodes only
};

// One finding for each subject: the worst of those added, with the evidence of all that are as bad.
class WorstFindings {
 public:
  explicit WorstFindings(const HealthProfile& profile) : profile_(profile) {}
  void add(const FabricSubject& subject, HealthFinding finding);
  // What is nobody's node drains nobody.
  FabricFindings take();

 private:
  const HealthProfile& profile_;
  std::map<std::pair<std::string, std::string>, HealthFinding> findings_;
};

}  // namespace muster
