// What Xids and SXids mean and what they lead to: NVIDIA's catalogue of 2025-10-29, where it is
// blank or an operator's experience differs by our own judgement. Data and look-ups, no state.
#pragma once

#include <optional>
#include <string_view>

#include "health/checks/kernel/xid.h"
#include "health/model/finding.h"

namespace muster {

enum class XidAction {
  ignore,  // written down, no finding
  app,     // the program's: its job failed, the node stays
  act      // the node's, by its severity
};

struct XidVerdict {
  XidAction action = XidAction::ignore;
  CheckSeverity severity;
  FaultClass fault_class = FaultClass::node;
  bool resets_at_epilog = false;  // once the job has ended, whatever becomes of the node else
  friend bool operator==(const XidVerdict&, const XidVerdict&) = default;
};

std::string_view xid_meaning(int xid);  // "not in the table" where there is none
// By the code alone. Of 144-150 it is what a line without details leads to; of 154 too.
XidVerdict verdict_of_xid(int xid);
// With what the line says of 144-150: whether it is fatal, if it does say so.
XidVerdict verdict_of_xid(int xid, std::optional<bool> is_fatal);

// What the driver asks for comes before the tables. Of `none`: an ignorable verdict.
XidVerdict verdict_of(DriverAction action);
std::string_view words_of(DriverAction action);

enum class SxidClass {
  log,                // warn; drain when they come often
  reboot,             //
  potentially_fatal,  // by whether a job on the node died of it
  always_fatal,
  unlisted  // of a code that is in no list, without a word in the line
};
SxidClass class_of_sxid(int sxid, SxidLine::Word word);
// A potentially fatal one that no job died of drains; one that a job died of resets all GPUs.
CheckSeverity severity_of(SxidClass sxid_class, bool job_died);

}  // namespace muster
