#include "health/checks/kernel/xid_table.h"

#include <random>

#include "tests/catch.h"

using namespace muster;

// Lines of NVIDIA's documents and of the tests of NVIDIA/NVSentinel and leptonai/gpud.
TEST_CASE("an Xid names its GPU and its code in every form") {
  struct Case {
    const char* line;
    const char* address;
    int xid;
  };
  const Case cases[] = {
      {"NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.", "0000:3b:00.0", 79},
      {"NVRM: Xid (0000:03:00): 14, Channel 00000001", "0000:03:00.0", 14},
      {"NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, x", "0000:05:00.0", 79},
      {"NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9).",
       "0000:01:00.0", 94},
      {"NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:02): 13, pid=9", "0000:3b:00.0", 13},
      {"NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal", "0009:01:00.0", 149},
      {"[171167.620236] NVRM: Xid (PCI:0000:3B:00.0): 48", "0000:3b:00.0", 48},
  };
  for (const Case& one : cases) {
    INFO(one.line);
    const auto xid = parse_xid(one.line);
    REQUIRE(xid);
    CHECK(xid->address == one.address);
    CHECK(xid->xid == one.xid);
  }
}

TEST_CASE("what is no Xid is none") {
  for (const char* line :
       {"", "NVRM: Xid", "NVRM: Xid (", "NVRM: Xid (PCI:0000:3b:00): abc, pid=2280636",
        "NVRM: Xid (PCI:0000:3b:00) 79", "NVRM: Xid (): 79", "NVRM: Xid (PCI:): 79",
        "NVRM: Xid (PCI:0000:3b:00): -79", "NVRM: Xid (PCI:0000:3b:00): 99999999999999",
        "NVRM: Xid (x) (0000:3b:00): 79", "Xid 79: GPU has fallen off the bus",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Fatal"}) {
    INFO(line);
    CHECK_FALSE(parse_xid(line));
  }
}

TEST_CASE("an Xid of an address that cannot be read is still an Xid") {
  const auto xid = parse_xid("NVRM: Xid (PCI:...): 79, pid=1");
  REQUIRE(xid);
  CHECK(xid->address == "...");
}

TEST_CASE("NVLink faults say whether they are fatal, behind their unit") {
  const struct {
    const char* rest;
    std::optional<bool> is_fatal;
  } cases[] = {
      {", RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x040988e2 0x00000008 0x00000000 0x00000000)",
       false},
      {", NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x00000000 0x00000000)", true},
      {", NETIR_LINK_EVT Fatal XC 1 i 2 Link 01 [0x0000000a]", true},
      {", pid=4, name=<unknown>, RLW_SRC_TRACK Fatal XC0 i1 Link 00 (0x1 0x2)", true},
      {"", {}},
      {", driver-specific detail", {}},
      {", Fatal", {}},
      {", pid=4, name=x, Fatal", {}},
      {", NETIR_LINK_EVT XC0 i0 Link 01 (0x1)", {}},
      // A process called "Fatal" does not hide the fault that follows.
      {", pid=4, name=Fatal, TLW_RX Nonfatal XC0 i0 Link x", false},
  };
  for (const auto& one : cases) {
    INFO(one.rest);
    CHECK(is_nvlink_fault_fatal(one.rest) == one.is_fatal);
  }
}

TEST_CASE("the link of an NVLink error of older GPUs") {
  CHECK(parse_nvlink_number(", pid=1, NVLink: fatal error detected on link 6(0x0, 0x0)") == 6);
  CHECK_FALSE(parse_nvlink_number(", NVLink: fatal error detected on link"));
  CHECK_FALSE(parse_nvlink_number(", link up"));
}

TEST_CASE("the driver's recovery action, by its words, else by its number") {
  const auto action = [](const std::string& to) {
    return parse_driver_action(", GPU recovery action changed from 0x0 (None) to " + to);
  };
  CHECK(action("0x0 (None)") == DriverAction::none);
  CHECK(action("0x1 (GPU Reset Required)") == DriverAction::gpu_reset);
  CHECK(action("0x1 (PF FLR)") == DriverAction::gpu_reset);
  CHECK(action("0x2 (Node Reboot Required)") == DriverAction::node_reboot);
  CHECK(action("0x2 (OS Reboot)") == DriverAction::node_reboot);
  CHECK(action("0x3 (Drain P2P)") == DriverAction::drain_p2p);
  CHECK(action("0x4 (Drain and Reset)") == DriverAction::drain_and_reset);
  CHECK(action("0x1 (Drain and Reset)") == DriverAction::drain_and_reset);
  CHECK(action("0x2 (Something New)") == DriverAction::node_reboot);
  CHECK(action("0x2") == DriverAction::node_reboot);
  CHECK(action("0x9 (Something New)") == DriverAction::other);
  CHECK(action("") == DriverAction::other);
  CHECK_FALSE(parse_driver_action(", GPU recovery action changed from 0x0 (None)"));
  CHECK_FALSE(parse_driver_action(", something else"));
  CHECK_FALSE(parse_driver_action(""));
}

TEST_CASE("an SXid names its switch, its code and how bad it is") {
  const auto sxid = parse_sxid(
      "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS crumbstore");
  REQUIRE(sxid);
  CHECK(sxid->address == "0000:c1:00.0");
  CHECK(sxid->sxid == 28006);
  CHECK(sxid->word == SxidLine::Word::nonfatal);
  CHECK(parse_sxid("SXid (PCI:0000:c1:00.0): 24007, Fatal, Link 42")->word ==
        SxidLine::Word::fatal);
  CHECK(parse_sxid("SXid (PCI:0000:c1:00.0): 24007, Data {0x1}")->word == SxidLine::Word::none);
  CHECK_FALSE(parse_sxid("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): garbled, Fatal"));
  CHECK_FALSE(parse_sxid("NVRM: Xid (PCI:0000:c1:00.0): 79, x"));
}

TEST_CASE("damaged driver lines are taken without harm") {
  std::mt19937 random(11);
  const std::string whole =
      "NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 01 (0x021425c6 0x0)";
  for (int round = 0; round < 3000; ++round) {
    std::string line = whole;
    for (int i = 0; i < 3; ++i) line[random() % line.size()] = static_cast<char>(random());
    line.resize(random() % (line.size() + 1));
    if (const auto xid = parse_xid(line)) {
      CHECK(xid->rest.size() <= line.size());
      is_nvlink_fault_fatal(xid->rest);
    }
    parse_nvlink_number(line);
    parse_sxid(line);
    parse_driver_action("recovery action changed from " + line);
  }
}
