// What Xids and SXids mean and what they lead to: NVIDIA's catalogue of 2025-10-29, where it is
// blank or an operator's experience differs by our own judgement. Data and look-ups, no state.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "health/model/driver_action.h"
#include "health/model/finding.h"

namespace muster {

// Lines of NVIDIA's driver taken apart: Xids of GPUs, SXids of NVSwitches, and the details that
// some of them carry. Pure parsing; what a code means stands in xid_table.h.

// `NVRM: Xid (PCI:0000:3b:00 GPU-I:01): 79, pid=7194, name=python, GPU has fallen off the bus.`
struct XidLine {
  std::string address;  // "0000:3b:00.0"; as written when it is no address
  int xid = 0;
  std::string_view rest;  // behind the code, of the text that was given
};
std::optional<XidLine> parse_xid(std::string_view text);

// Xids 144-150: `RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x040988e2 0x00000008 …)`; older drivers
// write `XC 1 i 2` and square brackets. Whether it is fatal; nothing without a unit and a word that
// says so.
std::optional<bool> is_nvlink_fault_fatal(std::string_view rest);

// The link of an Xid 74, `NVLink: fatal error detected on link 6(0x0, …)`.
std::optional<int> parse_nvlink_number(std::string_view rest);

// Xid 154: `GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)`. The words
// count; the number where they are not known. Nothing when it is not of this form.
std::optional<DriverAction> parse_driver_action(std::string_view rest);

// `nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress …`
struct SxidLine {
  enum class Word { none, nonfatal, fatal };
  std::string address;  // of the switch
  int sxid = 0;
  Word word = Word::none;
};
std::optional<SxidLine> parse_sxid(std::string_view text);

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
