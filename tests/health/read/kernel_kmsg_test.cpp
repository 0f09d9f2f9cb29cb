#include "health/read/kmsg.h"

#include <random>

#include "scheduler/text/pattern.h"
#include "tests/catch.h"

using namespace muster;

namespace {

KernelLine only_record(std::string_view bytes) {
  KmsgParser parser;
  const auto records = parser.feed(bytes);
  REQUIRE(records.size() == 1);
  return records.front();
}

}  // namespace

// The form is that of Documentation/ABI/testing/dev-kmsg in Linux.
TEST_CASE("a record of the kernel's log with its dictionary") {
  const KernelLine line = only_record(
      "4,4471,3023054882,-;mlx5_core 0000:5c:00.0: Port module event: module 0, Cable unplugged\n"
      " SUBSYSTEM=pci\n DEVICE=+pci:0000:5c:00.0\n");
  CHECK(line.priority == 4);
  CHECK(line.is_from_kernel);
  CHECK(line.sequence == 4471u);
  CHECK(line.since_boot == SinceBoot(3023054882));
  CHECK(line.text == "mlx5_core 0000:5c:00.0: Port module event: module 0, Cable unplugged");
  CHECK(line.device == "+pci:0000:5c:00.0");
}

TEST_CASE("escapes of a record are undone, other backslashes stay") {
  CHECK(only_record("6,1,2,-;a\\x0ab\\x5cx\\x09\\xg1\\x4\n").text == "a\nb\\x\t\\xg1\\x4");
  CHECK(only_record("6,1,2,-;\\xc3\\xa9\n").text == "\xc3\xa9");
}

TEST_CASE("what a program wrote into the log is marked") {
  CHECK_FALSE(only_record("12,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, x\n").is_from_kernel);
  CHECK(only_record("3,1,2,-,caller=T12;x\n").is_from_kernel);
}

TEST_CASE("a continued record is one line") {
  KmsgParser parser;
  const auto records = parser.feed("4,7,10,c;GPU has \n4,8,11,+;fallen off the bus\n4,9,12,-;x\n");
  REQUIRE(records.size() == 2);
  CHECK(records[0].text == "GPU has fallen off the bus");
  CHECK(records[0].sequence == 8u);
  CHECK(records[0].continued == 1);
  CHECK(parser.feed("4,10,13,+;alone\n").size() == 1);
}

TEST_CASE("records may come in pieces") {
  const std::string log = "6,1,10,-;first\n DEVICE=x\n6,2,20,-;second\n";
  for (std::size_t cut = 0; cut <= log.size(); ++cut) {
    KmsgParser parser;
    auto records = parser.feed(log.substr(0, cut));
    for (KernelLine& line : parser.feed(log.substr(cut))) records.push_back(std::move(line));
    REQUIRE(records.size() == 2);
    CHECK(records[0].text == "first");
    CHECK(records[1].sequence == 2u);
  }
}

TEST_CASE("lines that are no record are left out") {
  for (const char* bad : {"no record", "6;x", "6,1;x", "6,1,;x", "6,1,2x,-;x", "-6,1,2,-;x",
                          "6,1,2,-", "99999999999999999999,1,2,-;x", "6,99999999999999999999,2,-;x",
                          "6,1,18446744073709551615,-;x", ",,,;", ";"}) {
    INFO(bad);
    KmsgParser parser;
    CHECK(parser.feed(std::string(bad) + "\n").empty());
    CHECK(parser.feed("6,1,2,-;good\n").size() == 1);
  }
}

TEST_CASE("a line without an end is not kept for ever") {
  KmsgParser parser;
  CHECK(parser.feed("6,1,2,-;" + std::string(1 << 20, 'a')).empty());
  CHECK(parser.feed(std::string(1 << 20, 'b')).empty());
  CHECK(parser.feed("\n6,3,4,-;next\n").size() == 1);
}

TEST_CASE("any bytes are taken without harm") {
  std::mt19937 random(7);
  const std::string alphabet = "0123456789,;-+c\\x \n:[]<>()NVRMXidPCI.\xff\x00";
  KmsgParser parser;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    for (unsigned i = random() % 60; i > 0; --i) bytes += alphabet[random() % alphabet.size()];
    for (const KernelLine& line : parser.feed(bytes)) CHECK(line.sequence.has_value());
    CHECK(printable(bytes, 16).size() <= 16);
    find_pci_address(bytes);
    normal_pci_address(bytes);
  }
}

TEST_CASE("PCI addresses have one form") {
  CHECK(normal_pci_address("0000:3b:00") == "0000:3b:00.0");
  CHECK(normal_pci_address("PCI:0000:3B:00") == "0000:3b:00.0");
  CHECK(normal_pci_address("00000000:3B:00.0") == "0000:3b:00.0");
  CHECK(normal_pci_address("00010002:3b:1f.7") == "10002:3b:1f.7");
  CHECK(normal_pci_address("3b:00.1") == "0000:3b:00.1");
  for (const char* bad : {"", ":", "...", "0000:3b", "0000:3b:00.", "0000:3b:00.8", "g000:3b:00",
                          "0000:3b:00.0x", "000000000:3b:00.0", "0000:3b:000", "0000:3b:00.00"}) {
    INFO(bad);
    CHECK_FALSE(normal_pci_address(bad));
  }
}

TEST_CASE("an address is found in a text") {
  CHECK(find_pci_address("mlx5_core 0000:5c:00.1: x") == "0000:5c:00.1");
  CHECK(find_pci_address("+pci:0000:5c:00.0") == "0000:5c:00.0");
  CHECK(find_pci_address("NVRM: GPU at PCI:0000:3b:00: GPU-d3b0") == "0000:3b:00.0");
  CHECK_FALSE(find_pci_address("(PCI ID: 10de:1b06) at 12:34:56"));
  CHECK_FALSE(find_pci_address(""));
}
