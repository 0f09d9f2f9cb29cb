// Event files, whole, cut, damaged and hostile. The sample is PyTorch's own.
#include <bit>
#include <random>

#include "runtime/protocol/crc32c.h"
#include "runtime/report/tensorboard.h"
#include "tests/launcher/agent/metric_sources/sample.h"

using namespace muster;

namespace {

using Words = std::vector<std::string>;

const Words written = {"Loss/train@1=3",        "lr@1=0.0001", "Loss/train@2=1.5",  "lr@2=0.0002",
                       "Loss/train@3=1",        "lr@3=0.0003", "Loss/train@4=0.75", "lr@4=0.0004",
                       "Loss/train@5=0.6",      "lr@5=0.0005", "Loss/train@6=0.5",  "lr@6=0.0006",
                       "Loss/train@7=0.428571", "lr@7=0.0007", "Loss/train@8=-"};

std::string scalar_record(double wall_time_s, std::uint64_t step, float value) {
  const Scalar scalar{"loss", value};
  return event_record(scalars_event(wall_time_s, step, {&scalar, 1}));
}

void append_field(std::string& text, int number, const std::string& content) {
  text += static_cast<char>(number << 3 | 2);
  text += static_cast<char>(content.size());
  text += content;
}

// As tf.summary.scalar and Keras write it (tensorflow/core/framework/summary.proto): synthetic.
std::string tensor_event(const std::string& plugin, float number) {
  std::string floats(reinterpret_cast<const char*>(&number), sizeof number);
  std::string tensor = {1 << 3, 1};
  append_field(tensor, 5, floats);
  std::string data, metadata, value, summary, event;
  append_field(data, 1, plugin);
  append_field(metadata, 1, data);
  append_field(value, 1, "epoch_loss");
  append_field(value, 9, metadata);
  append_field(value, 8, tensor);
  append_field(summary, 1, value);
  event = {2 << 3, 4};
  append_field(event, 5, summary);
  return event;
}

}  // namespace

TEST_CASE("the scalars of PyTorch's event file are read, a NaN as no number") {
  const FakeRoot root;
  put_bytes(root.below("/e"), event_sample());
  const MetricLook look = read_all(read_event_file, root.below("/e"));
  CHECK(words_of(look.points) == written);
  CHECK(look.notes.empty());
  CHECK(look.points.at(1).value == 1e-4);  // as it was written, not as a float is widened
}

TEST_CASE("an event file that is cut anywhere says nothing false, and nothing is lost") {
  const FakeRoot root;
  const std::string path = root.below("/e"), whole = event_sample();
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    CAPTURE(cut);
    SourcePlace place;
    MetricLook look;
    put_bytes(path, whole.substr(0, cut));
    read_event_file(file_at(path), place, look);
    REQUIRE(look.points.size() <= written.size());
    const Words first = words_of(look.points);
    REQUIRE(std::equal(first.begin(), first.end(), written.begin()));
    put_bytes(path, whole);
    read_event_file(file_at(path), place, look);
    REQUIRE(words_of(look.points) == written);
    REQUIRE(look.notes.empty());
  }
}

TEST_CASE("an event file with a changed bit is read up to there, and that is said once") {
  const FakeRoot root;
  const std::string path = root.below("/e"), whole = event_sample();
  for (std::size_t bit = 0; bit < 8 * whole.size(); bit += 3) {
    CAPTURE(bit);
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    put_bytes(path, damaged);
    SourcePlace place;
    MetricLook look;
    for (int time = 0; time < 2; ++time) read_event_file(file_at(path), place, look);
    const Words first = words_of(look.points);
    REQUIRE(first.size() < written.size() + 1);
    REQUIRE(std::equal(first.begin(), first.end(), written.begin()));
    REQUIRE(place.is_damaged);
    REQUIRE(look.notes.size() == 1);
  }
}

TEST_CASE("bytes that are no events end nothing") {
  const SourceFile file{"e", ""};
  const std::string event = tensor_event("scalars", 1);
  const Scalar scalar{"loss", 1};
  const std::string other = scalars_event(1, 2, {&scalar, 1});
  std::mt19937 random(11);
  for (int round = 0; round < 50'000; ++round) {
    std::string text = round % 2 ? event : other;
    for (int i = 0; i < 4; ++i) text[random() % text.size()] = static_cast<char>(random());
    MetricLook look;
    read_event(text.substr(0, random() % (text.size() + 1)), file, look);
    CHECK(look.points.size() <= text.size());
  }
}

TEST_CASE("a long record is a picture and passed over, one that cannot be is damage") {
  const FakeRoot root;
  const std::string path = root.below("/e"), good = scalar_record(5, 3, 0.5F);
  const std::string picture = event_record(std::string(1 << 20, '\0'));
  SourcePlace place;
  MetricLook look;
  for (const std::size_t cut : {std::size_t{13}, picture.size() / 2, picture.size() - 1}) {
    put_bytes(path, good + picture.substr(0, cut));
    for (int time = 0; time < 3; ++time, look.is_cut = false) {
      read_event_file(file_at(path), place, look);
    }
    CHECK(place.at == static_cast<std::int64_t>(good.size()));
  }
  put_bytes(path, good + picture + good);
  for (int time = 0; time < 3; ++time) read_event_file(file_at(path), place, look);
  CHECK(words_of(look.points) == Words{"loss@3=0.5", "loss@3=0.5"});
  CHECK(look.notes.empty());
  std::string endless("\0\0\0\0\0\1\0\0", 8);  // 1 TiB, its sum as it should be
  const std::uint32_t sum = std::rotr(crc32c(endless), 15) + 0xa282ead8u;
  endless.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  put_bytes(path, good + endless + good);
  const MetricLook cut = read_all(read_event_file, path);
  CHECK(words_of(cut.points) == Words{"loss@3=0.5"});
  CHECK(cut.notes.size() == 1);
}

TEST_CASE("an event file that is written anew is read from its beginning") {
  const FakeRoot root;
  const std::string path = root.below("/e");
  SourcePlace place;
  MetricLook look;
  put_bytes(path, scalar_record(5, 3, 0.5F) + scalar_record(5, 4, 0.25F));
  read_event_file(file_at(path), place, look);
  put_bytes(path, scalar_record(6, 1, 8));
  read_event_file(file_at(path), place, look);
  CHECK(words_of(look.points) == Words{"loss@3=0.5", "loss@4=0.25", "loss@1=8"});
}

TEST_CASE("TensorFlow's scalars are tensors of one float, of the plugin scalars alone") {
  MetricLook look;
  read_event(tensor_event("scalars", 0.25F), {"e", "train/"}, look);
  read_event(tensor_event("histograms", 0.5F), {"e", "train/"}, look);
  CHECK(words_of(look.points) == Words{"train/epoch_loss@4=0.25"});
}

TEST_CASE("what an earlier attempt wrote into the same file is not told again") {
  const FakeRoot root;
  put_bytes(root.below("/e"), scalar_record(5, 3, 0.5F) + scalar_record(7, 4, 0.25F));
  SourcePlace place;
  MetricLook look;
  SourceFile file = file_at(root.below("/e"));
  file.places.since_ms = 6000;
  read_event_file(file, place, look);
  CHECK(words_of(look.points) == Words{"loss@4=0.25"});
}

TEST_CASE("files of one process have one writer") {
  CHECK(writer_of("events.out.tfevents.1795806027.vm.5823.0") == "vm.5823");
  CHECK(writer_of("events.out.tfevents.1795806028.vm.5823.11") == "vm.5823");
  CHECK(writer_of("events.out.tfevents.1795806027.a.b.c.5823.7.v2") == "a.b.c.5823");
  CHECK(writer_of("events.out.tfevents.1795806027.vm.5823") == "vm.5823");
  CHECK(writer_of("events.out.tfevents.1795806027.10.0.0.1.5823.0") == "10.0.0.1.5823");
  for (const char* odd : {"events.out.tfevents.1795806027.vm", "events.out.tfevents.", "x", ""}) {
    CHECK(writer_of(odd) == odd);
  }
}
