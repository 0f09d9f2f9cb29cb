// MUSTER_FIELDS(job, grace) inside a struct lists its fields once, by their own names, for whatever
// stores, sends, compares or prints them. It is the same as
//
//   template <class Self, class Visit>
//   static void fields(Self& self, Visit visit) {
//     visit("job", self.job);
//     visit("grace", self.grace);
//   }
//
// A field whose stored name is another is a pair: MUSTER_FIELDS((class, fault_class), grace). At
// most 200 fields.
#pragma once

#define MUSTER_FIELDS(...)                            \
  template <class Self, class Visit>                  \
  static void fields(Self& self, Visit visit) {       \
    MUSTER_FIELDS_EXPAND(MUSTER_FIELDS_EACH(__VA_ARGS__)) \
  }
#define MUSTER_FIELDS_EACH(one, ...)                                                     \
  MUSTER_FIELDS_THIRD(MUSTER_FIELDS_COMMA one, MUSTER_FIELDS_PAIR, MUSTER_FIELDS_NAME, ) \
  (one) __VA_OPT__(MUSTER_FIELDS_AGAIN MUSTER_FIELDS_PARENS (__VA_ARGS__))
#define MUSTER_FIELDS_NAME(name) visit(#name, self.name);
#define MUSTER_FIELDS_PAIR(pair) MUSTER_FIELDS_STORED pair
#define MUSTER_FIELDS_STORED(stored, name) visit(#stored, self.name);
// A pair makes a comma of MUSTER_FIELDS_COMMA, and so the third argument is another.
#define MUSTER_FIELDS_COMMA(...) ,
#define MUSTER_FIELDS_THIRD(...) MUSTER_FIELDS_THIRD_OF(__VA_ARGS__)
#define MUSTER_FIELDS_THIRD_OF(first, second, third, ...) third
#define MUSTER_FIELDS_AGAIN() MUSTER_FIELDS_EACH
#define MUSTER_FIELDS_PARENS ()
// Each level looks four times at what the one below it left: 256 steps.
#define MUSTER_FIELDS_EXPAND(...) \
  MUSTER_FIELDS_4(MUSTER_FIELDS_4(MUSTER_FIELDS_4(MUSTER_FIELDS_4(__VA_ARGS__))))
#define MUSTER_FIELDS_4(...) \
  MUSTER_FIELDS_3(MUSTER_FIELDS_3(MUSTER_FIELDS_3(MUSTER_FIELDS_3(__VA_ARGS__))))
#define MUSTER_FIELDS_3(...) \
  MUSTER_FIELDS_2(MUSTER_FIELDS_2(MUSTER_FIELDS_2(MUSTER_FIELDS_2(__VA_ARGS__))))
#define MUSTER_FIELDS_2(...) \
  MUSTER_FIELDS_1(MUSTER_FIELDS_1(MUSTER_FIELDS_1(MUSTER_FIELDS_1(__VA_ARGS__))))
#define MUSTER_FIELDS_1(...) __VA_ARGS__
