/* How many characters Gestalt (Ratcliff-Obershelp) matching pairs up in two strings.
 *
 * Equal to the total size of difflib.SequenceMatcher(None, a, b, autojunk=False)
 * .get_matching_blocks(): take the longest common substring (of the longest ones the earliest in a,
 * of those the earliest in b), then do the same with what is left of it and what is right of it.
 */
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

typedef struct {
    Py_ssize_t a_start, a_end, b_start, b_end;
} Piece;

static Py_ssize_t
count_matches(const Py_UCS4 *a, Py_ssize_t a_length, const Py_UCS4 *b, Py_ssize_t b_length,
              Py_ssize_t *run, Piece *todo)
{
    /* run[j + 1]: length of the common substring that ends at a[i] and b[j]. Each piece leaves at
     * most two smaller ones that do not overlap, so `todo` never holds more than a_length + 1. */
    Py_ssize_t matches = 0, waiting = 0;
    todo[waiting++] = (Piece){0, a_length, 0, b_length};
    while (waiting) {
        Piece piece = todo[--waiting];
        Py_ssize_t longest = 0, a_at = 0, b_at = 0;
        memset(run + piece.b_start, 0, (size_t)(piece.b_end - piece.b_start + 1) * sizeof *run);
        for (Py_ssize_t i = piece.a_start; i < piece.a_end; i++) {
            if (i % 256 == 255 && PyErr_CheckSignals()) /* texts may be long: let Ctrl-C in */
                return -1;
            const Py_UCS4 letter = a[i];
            Py_ssize_t before = 0; /* run of the previous row at j, the diagonal neighbour */
            for (Py_ssize_t j = piece.b_start; j < piece.b_end; j++) {
                const Py_ssize_t here = b[j] == letter ? before + 1 : 0;
                before = run[j + 1];
                run[j + 1] = here;
                if (here > longest) {
                    longest = here;
                    a_at = i - here + 1;
                    b_at = j - here + 1;
                }
            }
        }
        if (!longest)
            continue;
        matches += longest;
        if (piece.a_start < a_at && piece.b_start < b_at)
            todo[waiting++] = (Piece){piece.a_start, a_at, piece.b_start, b_at};
        if (a_at + longest < piece.a_end && b_at + longest < piece.b_end)
            todo[waiting++] = (Piece){a_at + longest, piece.a_end, b_at + longest, piece.b_end};
    }
    return matches;
}

static PyObject *
matches(PyObject *module, PyObject *args)
{
    PyObject *a_text, *b_text, *result = NULL;
    if (!PyArg_ParseTuple(args, "UU:matches", &a_text, &b_text))
        return NULL;
    Py_ssize_t a_length = PyUnicode_GetLength(a_text), b_length = PyUnicode_GetLength(b_text);
    Py_UCS4 *a = PyUnicode_AsUCS4Copy(a_text), *b = PyUnicode_AsUCS4Copy(b_text);
    Py_ssize_t *run = PyMem_Malloc((size_t)(b_length + 1) * sizeof *run);
    Piece *todo = PyMem_Malloc((size_t)(a_length + 1) * sizeof *todo);
    if (a && b && run && todo) {
        Py_ssize_t count = count_matches(a, a_length, b, b_length, run, todo);
        result = count < 0 ? NULL : PyLong_FromSsize_t(count);
    } else if (!PyErr_Occurred())
        PyErr_NoMemory();
    PyMem_Free(a);
    PyMem_Free(b);
    PyMem_Free(run);
    PyMem_Free(todo);
    return result;
}

static PyMethodDef methods[] = {
    {"matches", matches, METH_VARARGS, "matches(a, b, /) -> number of characters matched"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_gestalt", "The inner loop of Gestalt matching.", 0, methods,
};

PyMODINIT_FUNC
PyInit__gestalt(void)
{
    return PyModule_Create(&module);
}
