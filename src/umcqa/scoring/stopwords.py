"""English words too common to tie an answer to a question."""

STOP_WORDS = frozenset(
    """
    a about above after again against all also am an and any are aren't as at be because been
    before being below between both but by can can't cannot could couldn't did didn't do does
    doesn't doing don't down during each few for from further get gets getting go goes going got
    had hadn't has hasn't have haven't having he her here hers herself him himself his how i if
    in into is isn't it it's its itself just like me more most much my myself no nor not of off
    on once one only or other our ours ourselves out over own put said same say says see she
    should so some such than that that's the their theirs them themselves then there these they
    this those through to too two under until up upon us very was wasn't we well went were
    weren't what when where which while who whom whose why will with won't would wouldn't you
    your yours yourself yourselves
    """.split()
)
